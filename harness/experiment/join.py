"""Client request and LMCache log joined by request id: what was cached where, and how long the load took."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

_LOCAL, _EXTERNAL = "local_cached_tokens", "external_cached_tokens"


def join_loads(tables: Mapping[str, pa.Table], arms_with_lmcache: frozenset[str]) -> dict[str, pa.Table]:
    """The tables with `local_cached_tokens`, `external_cached_tokens` and `load_ms` of requests filled where known.

    The server counts cached tokens (local + external); which is which follows without doubt in three cases: the arm has
    no LMCache, or LMCache's log has no prefetch for the request (a full miss leaves no line): all local; or the
    engine's counters gained no local hit in the whole pass: all external. Otherwise the two stay null. `load_ms` is the
    prefetch's own time, from its submission to the scheduler's poll that saw it complete: an upper bound of the load.
    """
    prefetches = {
        (row["arm"], row["request_id"]): row
        for row in tables["loads"].to_pylist()
        if row["kind"] == "prefetch" and row["request_id"] is not None
    }
    without_local_hits = {
        (row["arm"], row["workload"], row["pass"], row["repeat"])
        for row in tables["passes"].to_pylist()
        if row["prefix_cache_hits"] == 0
    }
    columns: dict[str, list[Any]] = {_LOCAL: [], _EXTERNAL: [], "load_ms": []}
    wanted = ["arm", "workload", "pass", "repeat", "request_id", "cached_tokens"]
    for row in tables["requests"].select(wanted).to_pylist():
        prefetch = prefetches.get((row["arm"], row["request_id"]))
        local, external = _split(
            row["cached_tokens"],
            behind=row["arm"] in arms_with_lmcache,
            prefetched=prefetch is not None,
            no_local_hits=(row["arm"], row["workload"], row["pass"], row["repeat"]) in without_local_hits,
        )
        columns[_LOCAL].append(local)
        columns[_EXTERNAL].append(external)
        columns["load_ms"].append(None if prefetch is None else prefetch["cost_ms"])
    requests = tables["requests"]
    for name, values in columns.items():
        position = requests.schema.get_field_index(name)
        field = requests.schema.field(position)
        requests = requests.set_column(position, field, pa.array(values, field.type))
    return {**tables, "requests": requests}


def _split(cached: int | None, *, behind: bool, prefetched: bool, no_local_hits: bool) -> tuple[int | None, int | None]:
    """Cached tokens as (local, external); `behind`: LMCache is behind this engine."""
    if cached is None:
        return None, None
    if not behind or not prefetched:
        return cached, 0
    if no_local_hits:
        return 0, cached
    return None, None
