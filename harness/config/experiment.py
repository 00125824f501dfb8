"""What an experiment is: engine, arms, workloads. Strict and frozen; an unknown key is an error."""

import shlex
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from harness.config.client import Client
from harness.config.simulation import Simulation
from harness.config.strict import Bytes, Name, Seconds, Strict
from harness.config.valkey import Valkey
from harness.config.workload import TraceReplay, Workload

ValkeyUrl = Annotated[str, Field(pattern=r"^((valkey|redis|resp)s?://[^\s/:@?]+:[0-9]+/?|unix:///[^\s?]+)(\?\S+)?$")]
Tier = Literal["engine", "l1", "valkey"]
Url = Annotated[str, Field(pattern=r"^https?://[^\s/]+"), AfterValidator(lambda url: url.rstrip("/"))]
ServerUrl = Annotated[Url, AfterValidator(lambda url: url.removesuffix("/v1").rstrip("/"))]
"""Where a vLLM answers, with what leads to it behind an ingress; `/v1` at its end, as clients write it, is no part."""


def _is_command(text: str) -> str:
    if not shlex.split(text):  # raises ValueError that says why it cannot be split
        raise ValueError("an empty command")
    return text


class Attach(Strict):
    """Servers that already run: where they answer, and what they log.

    `more_urls` are further servers that share the load (client.route says how). Metrics are at /metrics of each, unless
    `metrics_url` and `more_metrics_urls` (as many as `more_urls`) say otherwise.
    LMCache's log is a file here (`lmcache_log`), or what a command prints as long as it runs (`lmcache_log_command`:
    `kubectl logs -f pod/lmcache-0 --since=1s`, `ssh host tail -n 0 -F /var/log/lmcache.log`).
    `resets` are the caches that may be emptied: `engine` (vLLM must run with VLLM_SERVER_DEV_MODE=1), `l1`, `valkey`.
    Of a Valkey that asks for credentials, the URL names the variables that hold them:
    `valkeys://host:6379?username_env=NAME&password_env=NAME&ca_file=/path`.
    """

    url: ServerUrl
    more_urls: Annotated[tuple[ServerUrl, ...], Field(strict=False)] = ()
    metrics_url: Url | None = None
    more_metrics_urls: Annotated[tuple[Url, ...], Field(strict=False)] = ()
    lmcache_url: Url | None = None
    lmcache_log: str | None = None
    lmcache_log_command: Annotated[str, AfterValidator(_is_command)] | None = None
    valkey_urls: Annotated[tuple[ValkeyUrl, ...], Field(strict=False)] = ()
    resets: Annotated[tuple[Tier, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _one_log(self) -> Self:
        if self.lmcache_log is not None and self.lmcache_log_command is not None:
            raise ValueError("lmcache_log or lmcache_log_command, not both: which one is the log?")
        return self

    @model_validator(mode="after")
    def _metrics_of_each(self) -> Self:
        if self.more_metrics_urls and len(self.more_metrics_urls) != len(self.more_urls):
            raise ValueError(f"{len(self.more_metrics_urls)} more_metrics_urls for {len(self.more_urls)} more_urls")
        return self

    @property
    def urls(self) -> tuple[str, ...]:
        """Every server."""
        return (self.url, *self.more_urls)

    @property
    def metrics_urls(self) -> tuple[str | None, ...]:
        """Of every server, where its metrics are; None where that is not said."""
        return (self.metrics_url, *(self.more_metrics_urls or (None,) * len(self.more_urls)))


class Engine(Strict):
    """The vLLM engine of every arm.

    `kv_cache_tokens` is the size of vLLM's own KV cache: a multiple of `block_size` (null block included), or refused.
    `replicas` such engines, each with an LMCache of its own, share the load (client.route) and the remote tier.
    With `attach`, a run asks the servers for what is not given: `model`, `block_size`, `max_model_len`,
    `kv_cache_tokens`; what is given and is not so there is refused.
    """

    backend: Literal["vllm-cpu", "vllm", "attach"]
    model: str = ""
    served_model_name: str | None = None
    kv_cache_tokens: Annotated[int, Field(gt=0)] | None = None
    block_size: Annotated[int, Field(gt=0)] = 16
    max_model_len: Annotated[int, Field(gt=0)] | None = None
    tensor_parallel: Annotated[int, Field(ge=1)] = 1
    prefill_context_parallel: Annotated[int, Field(ge=1)] = 1
    data_parallel: Annotated[int, Field(ge=1)] = 1
    replicas: Annotated[int, Field(ge=1, le=16)] = 1
    extra_args: Annotated[tuple[str, ...], Field(strict=False)] = ()
    attach: Attach | None = None

    @property
    def ranks(self) -> int:
        """Workers of one engine, each with a KV cache of its own."""
        return self.tensor_parallel * self.prefill_context_parallel

    @model_validator(mode="after")
    def _named(self) -> Self:
        if not self.model and self.backend != "attach":
            raise ValueError("engine.model is needed: a preset such as tiny-8l, a folder or a hub id")
        return self

    @model_validator(mode="after")
    def _whole_blocks(self) -> Self:
        if self.kv_cache_tokens is not None and self.kv_cache_tokens % self.block_size:
            below = self.kv_cache_tokens // self.block_size * self.block_size
            raise ValueError(
                f"kv_cache_tokens {self.kv_cache_tokens} is not a multiple of block_size {self.block_size}: "
                f"write {below} or {below + self.block_size}"
            )
        return self


class LMCache(Strict):
    """LMCache beside the engine (`mp`, its multiprocess mode) or inside each worker of it (`inprocess`).

    `l1` is its host tier, 1 GiB or more (`mp` takes whole GiB to begin with), for each rank where it is in-process;
    `skip_l1` keeps hits out of it. `loads` are inside the engine's step (`sync`, what in-process does unless told
    otherwise) or beside it (`async`, the only way of `mp`). In-process and asynchronous, a request whose load takes
    longer than `lookup_timeout` (LMCache's default: 3 s) is computed.
    """

    mode: Literal["mp", "inprocess"] = "mp"
    l1: Annotated[Bytes, Field(ge=2**30)]
    store_policy: Literal["default", "skip_l1"] = "default"
    chunk_size: Annotated[int, Field(gt=0)] = 256
    loads: Literal["sync", "async"] | None = None
    lookup_timeout: Annotated[Seconds, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _loads_of_mode(self) -> Self:
        if self.mode == "mp" and self.loads == "sync":
            raise ValueError("loads: sync needs mode: inprocess; a multiprocess LMCache always loads beside the engine")
        if self.lookup_timeout is not None and (self.mode == "mp" or self.loads != "async"):
            raise ValueError("lookup_timeout is a limit of mode: inprocess with loads: async only")
        return self

    @property
    def in_step(self) -> bool:
        """Whether a load holds up the engine's step, and with it every other request."""
        return self.mode == "inprocess" and self.loads != "async"


class Arm(Strict):
    """One configuration under comparison. No `lmcache`: vLLM recomputes what its own cache does not hold.

    `python` is the interpreter that runs the arm's vLLM and LMCache, kvreplay's own unless said: with one environment
    for each version, versions are compared in one run.
    """

    name: Name
    python: str | None = None
    lmcache: LMCache | None = None
    valkey: Valkey | None = None
    attach: Attach | None = None

    @model_validator(mode="after")
    def _remote_needs_lmcache(self) -> Self:
        if self.valkey is not None and self.lmcache is None:
            raise ValueError("valkey needs lmcache: add `lmcache: {mode: mp, l1: 1GiB}` to this arm")
        if self.valkey is not None and self.valkey.cluster and self.lmcache is not None and self.lmcache.mode != "mp":
            raise ValueError("cluster: true needs mode: mp, whose own adapter follows a cluster's redirects")
        return self


class Experiment(Strict):
    """A whole experiment: every arm x workload x repeat of it is one cell of the result.

    Where the caches cannot be shown to be in the state a workload begins with, its arm fails, unless `on_unproved`
    lets it run with a caveat on every number of it. Every server is looked at once in `sample_every`.
    """

    experiment: Name
    engine: Engine
    arms: Annotated[tuple[Arm, ...], Field(strict=False, min_length=1)]
    workloads: Annotated[tuple[Workload, ...], Field(strict=False, min_length=1)]
    client: Client = Client()
    simulation: Simulation = Simulation()
    repeats: Annotated[int, Field(ge=1)] = 1
    seed: Annotated[int, Field(ge=0)] = 0
    sample_every: Annotated[Seconds, Field(ge=0.05)] = 0.5
    on_unproved: Literal["fail", "caveat"] = "fail"

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for kind, names in (("arm", [a.name for a in self.arms]), ("workload", [w.name for w in self.workloads])):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"two {kind}s are named {twice[0]!r}")
        if self.engine.backend == "attach":
            for arm in self.arms:
                if arm.attach is None and self.engine.attach is None:
                    raise ValueError(
                        f"arm {arm.name!r} has no `attach`, and engine has none either: where does it run?"
                    )
        elif self.engine.kv_cache_tokens is None and self.engine.backend == "vllm-cpu":
            raise ValueError("engine.kv_cache_tokens is needed: how large is vLLM's own KV cache?")
        for named in self.simulation.arms:
            if named not in [arm.name for arm in self.arms]:
                raise ValueError(f"simulation.arms names {named!r}, and no arm is called so")
        self._refuse_shared_keys()
        for workload in self.workloads:
            if workload.trace is not None and workload.trace.matches_rho:
                self.rho_arm(workload.trace)
        return self

    def _refuse_shared_keys(self) -> None:
        """The arms send the same prompts: one after another they would find each other's KV, whatever its layout."""
        writers: dict[tuple[str, str], str] = {}
        for arm in self.arms:
            if arm.valkey is None or arm.valkey.flush:
                continue
            for url in arm.valkey.urls:
                other = writers.setdefault((url, arm.valkey.key_prefix), arm.name)
                if other != arm.name:
                    raise ValueError(
                        f"arms {other!r} and {arm.name!r} both write to {url}: give each a key_prefix of its own, or "
                        "`flush: true` if it may be emptied"
                    )

    def rho_arm(self, trace: TraceReplay) -> Arm:
        """The arm whose link sets the rate of a `match-rho` trace: the named one, else the only single-instance one."""
        linked = [arm for arm in self.arms if arm.valkey is not None and arm.valkey.link is not None]
        if trace.rho_arm is not None:
            linked = [arm for arm in linked if arm.name == trace.rho_arm]
        else:
            linked = [arm for arm in linked if arm.valkey is not None and arm.valkey.instances == 1]
        if len(linked) != 1:
            wanted = f"named {trace.rho_arm!r}" if trace.rho_arm else "with one Valkey instance"
            raise ValueError(f"rate: match-rho needs exactly one arm {wanted} behind a link, found {len(linked)}")
        return linked[0]
