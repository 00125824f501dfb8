"""One pass of one workload on one arm: counter deltas taken while the engine was idle before and after."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassCounters:
    """Counters of all engines (tokens) and all Valkey instances (calls, bytes) together; None where not measured."""

    prefix_cache_queries: int | None = None
    prefix_cache_hits: int | None = None
    external_prefix_cache_queries: int | None = None
    external_prefix_cache_hits: int | None = None
    prompt_tokens_local_compute: int | None = None
    prompt_tokens_local_cache_hit: int | None = None
    prompt_tokens_external_kv_transfer: int | None = None
    valkey_get_calls: int | None = None
    valkey_bytes_out: int | None = None

    @staticmethod
    def sum(readings: "Sequence[PassCounters]") -> "PassCounters":
        """Readings of several engines together; None where one of them is missing."""
        totals: dict[str, int | None] = {}
        for name in PassCounters.__dataclass_fields__:
            values = [getattr(reading, name) for reading in readings]
            totals[name] = None if None in values else sum(values)
        return PassCounters(**totals)

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
