"""One pass of one workload on one arm: counter deltas taken while the engine was idle before and after."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassCounters:
    """Counters of the engine (tokens) and of all Valkey instances together (calls, bytes); None where not measured."""

    prefix_cache_queries: int | None = None
    prefix_cache_hits: int | None = None
    external_prefix_cache_queries: int | None = None
    external_prefix_cache_hits: int | None = None
    prompt_tokens_local_compute: int | None = None
    prompt_tokens_local_cache_hit: int | None = None
    prompt_tokens_external_kv_transfer: int | None = None
    valkey_get_calls: int | None = None
    valkey_bytes_out: int | None = None

    def since(self, before: "PassCounters") -> "PassCounters":
        """The increase from `before` to this reading; None where either side is missing or the counter went back."""
        deltas: dict[str, int | None] = {}
        for name in self.__dataclass_fields__:
            end, start = getattr(self, name), getattr(before, name)
            deltas[name] = None if end is None or start is None or end < start else end - start
        return PassCounters(**deltas)


@dataclass(frozen=True, slots=True)
class PassRecord:
    """A pass that ended: how many requests, how long it took (s), what the counters gained."""

    arm: str
    workload: str
    pass_name: str
    repeat: int
    requests: int
    duration_s: float
    counters: PassCounters
