"""What `kvreplay simulate` needs to know that a live run measures, and what was published about the same experiment."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from harness.config.strict import Bytes, Name, Rate, Seconds, Strict

Positive = Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)]


class SimulatedArm(Strict):
    """What an arm is in the simulation, beyond what the config says of it.

    `placement: position` puts chunk c of a prompt on instance c modulo the instances. `host_policy` and
    `remote_policy` are those of sim.policy. `hit_fixed` is T0 where it is another one than that of all.
    `writer_bandwidth`: one rank writes all that is stored, the others wait.
    """

    placement: Literal["position"] | None = None
    host_policy: Literal["lru", "fifo", "lfu", "s3-fifo", "random"] = "lru"
    remote_policy: Literal["lru", "fifo", "lfu", "s3-fifo", "random"] | None = None
    writer_bandwidth: Rate | None = None
    hit_fixed: Annotated[Seconds, Field(ge=0)] | None = None


class Published(Strict):
    """A figure that was published, to stand beside the simulated one: `figure` is a name in the output of `simulate`.

    `note` says why the two may differ.
    """

    arm: Name
    workload: Name
    figure: str
    value: Annotated[float, Field(strict=False)]
    source: str
    pass_: Annotated[str | None, Field(alias="pass")] = None
    note: str = ""


class Simulation(Strict):
    """Explicit inputs of the simulators; docs/method.md says what each is.

    R, s and T0 are `prefill_tokens_per_s`, `kv_bytes_per_token` (of the model, where it is on this machine) and
    `hit_fixed`. `step` is the fixed cost of an engine step. `batched_tokens` and `running` bound a step, as vLLM's
    max_num_batched_tokens and max_num_seqs; `max_answer_tokens` cuts answers, 1 for an engine that only prefills.
    `loads_in_flight` is how many prompts load beside the steps at once; unless said, as many as LMCache lets: 8, or 1
    inside the engine. `instance_cv` spreads the instances' service times. `stores` go beside loads, compete with them,
    or are left out.
    """

    prefill_tokens_per_s: Positive | None = None
    kv_bytes_per_token: Annotated[Bytes, Field(gt=0)] | None = None
    hit_fixed: Annotated[Seconds, Field(ge=0)] = 0.0
    step: Annotated[Seconds, Field(ge=0)] = 0.0
    batched_tokens: Annotated[int, Field(ge=1)] = 2048
    running: Annotated[int, Field(ge=1)] = 256
    max_answer_tokens: Annotated[int, Field(ge=1)] | None = None
    loads_in_flight: Annotated[int, Field(ge=1)] | None = None
    instance_cv: Annotated[float, Field(ge=0, strict=False, allow_inf_nan=False)] = 0.0
    host_bandwidth: Rate | None = None
    stores: Literal["none", "beside", "competing"] = "beside"
    arms: Mapping[Name, SimulatedArm] = {}
    published: Annotated[tuple[Published, ...], Field(strict=False)] = ()
