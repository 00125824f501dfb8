"""How fast everything is: the explicit inputs of the queue simulator."""

import math
from dataclasses import dataclass
from typing import Literal

Loads = Literal["asynchronous", "in-step"]
Stores = Literal["none", "beside", "competing"]


@dataclass(frozen=True, slots=True)
class Service:
    """Rates and costs of one arm.

    `prefill_tokens_per_s` (R) is for every token that is computed; `step_s` is added to each engine step. A prompt
    that loads anything pays `hit_fixed_s` (T0), and its bytes `host_bytes_per_s` on the way from host memory, one
    prompt after another if `copies_in_turn` (where the engine's own process copies them), else beside one another.
    No two prompts take the same time: each draws one of `prefill_spread`, by which the time of its tokens is
    multiplied, and one of `hit_fixed_spread_s`, which is added to T0 (by `seed`).
    `loads`: `asynchronous` beside the engine's steps, at most `loads_in_flight` at once; or `in-step`, one prompt's
    after another's inside the step that admits them, on all ranks in lock-step, so that the slowest part holds up all.
    `instance_bytes_per_s` has a rate for each instance, which serves in the order asked; each part takes the time
    that follows, times a draw with mean 1 and coefficient of variation `instance_cv` (gamma, by `seed`). `stores`
    go out beside the loads (a link with two directions) or compete with them (one server thread). With
    `writer_bytes_per_s` one rank writes all that is stored, inside the step, and the others wait for it.
    While it computes, the engine looks once a step at what an asynchronous lookup has to say: with `lookup_steps` 2 it
    asks in one step and reads in the next what was true when it asked, with 1 it reads whatever is true from the step
    after the first on, with 0 at once. An idle engine looks so often that it takes no time. Each look that is told
    nothing yet holds the step up for `lookup_poll_s`.
    A step computes at most `batched_tokens` tokens of at most `running` requests (chunked prefill).

    Raises ValueError for a rate that is not above zero, a cost below zero, or a limit below one.
    """

    prefill_tokens_per_s: float
    step_s: float = 0.0
    hit_fixed_s: float = 0.0
    prefill_spread: tuple[float, ...] = (1.0,)
    hit_fixed_spread_s: tuple[float, ...] = (0.0,)
    loads: Loads = "asynchronous"
    loads_in_flight: int = 8
    instance_bytes_per_s: tuple[float, ...] = ()
    instance_cv: float = 0.0
    host_bytes_per_s: float = math.inf
    copies_in_turn: bool = False
    lookup_steps: int = 0
    lookup_poll_s: float = 0.0
    stores: Stores = "beside"
    writer_bytes_per_s: float | None = None
    batched_tokens: int = 2048
    running: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        rates = {"prefill_tokens_per_s": self.prefill_tokens_per_s, "host_bytes_per_s": self.host_bytes_per_s}
        rates |= {f"instance_bytes_per_s[{i}]": rate for i, rate in enumerate(self.instance_bytes_per_s)}
        if self.writer_bytes_per_s is not None:
            rates["writer_bytes_per_s"] = self.writer_bytes_per_s
        for name, rate in rates.items():
            if not rate > 0:
                raise ValueError(f"{name} is {rate}: it is above zero")
        for name in ("step_s", "hit_fixed_s", "instance_cv", "lookup_poll_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: it is zero or above")
        if min(self.prefill_spread) <= 0 or self.hit_fixed_s + min(self.hit_fixed_spread_s) < 0:
            raise ValueError("a spread has a time of none, or less: computing takes some, and T0 is zero or above")
        if self.lookup_steps not in {0, 1, 2}:
            raise ValueError(f"lookup_steps is {self.lookup_steps}: it is 0, 1 or 2")
        for name in ("loads_in_flight", "batched_tokens", "running"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it is one or above")
