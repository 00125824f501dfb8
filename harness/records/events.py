"""What the servers said: LMCache's log lines and sampled metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class LoadEvent(NamedTuple):
    """One LMCache log line about KV moving: a load, store, lookup, prefetch or failure.

    `t_unix_ns` is LMCache's own wall-clock stamp. `request_id` is the client's id (kvr-...) where the line carries one.
    The other figures are what the line says, None where it says nothing: `tokens` of the prompt (lookup), asked for
    (prefetch) or moved (load, store); `hit_tokens` that LMCache holds; `computed_tokens` that the engine has already;
    `need_tokens` still to be loaded; `total_tokens` that a load or store was part of. `rank` and `pid` are those of the
    process that wrote it, where vLLM put them in front. A tuple: it takes half the time of a frozen dataclass to make,
    and logs are long.
    """

    arm: str
    repeat: int
    t_unix_ns: int
    instance: str
    version: str
    kind: str
    line: str
    line_no: int
    file: str
    request_id: str | None = None
    seq: int | None = None
    tokens: int | None = None
    hit_tokens: int | None = None
    need_tokens: int | None = None
    keys: int | None = None
    l1_keys: int | None = None
    l2_keys: int | None = None
    bytes: int | None = None
    cost_ms: float | None = None
    gb_per_s: float | None = None
    computed_tokens: int | None = None
    total_tokens: int | None = None
    rank: int | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class ServerSample:
    """One value of one series, `t_ns` after the run's origin; `source` is vllm, lmcache, valkey, host or gpu."""

    arm: str
    repeat: int
    t_ns: int
    source: str
    instance: str
    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
