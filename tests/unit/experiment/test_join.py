"""Promises of harness.experiment.join."""

from typing import Any

import pyarrow as pa

from harness.experiment.join import join_loads
from harness.records import SCHEMAS

BEHIND = frozenset({"remote"})


def _tables(request: dict[str, Any], prefetch: dict[str, Any] | None, prefix_cache_hits: int) -> dict[str, pa.Table]:
    key = {"arm": request["arm"], "workload": "w", "pass": "replay", "repeat": 0}
    rows: dict[str, list[dict[str, Any]]] = {
        "requests": [{**key, "request_id": "kvr-1", "load_ms": None, **request}],
        "loads": [{"arm": request["arm"], "kind": "prefetch", "request_id": "kvr-1", **prefetch}] if prefetch else [],
        "passes": [{**key, "prefix_cache_hits": prefix_cache_hits}],
        "samples": [],
    }
    return {name: pa.Table.from_pylist(rows[name], schema=schema) for name, schema in SCHEMAS.items()}


def _joined(
    arm: str, cached: int | None, *, prefetch_ms: float | None = None, local_hits: int = 0
) -> tuple[int | None, int | None, float | None]:
    prefetch = None if prefetch_ms is None else {"cost_ms": prefetch_ms}
    tables = join_loads(_tables({"arm": arm, "cached_tokens": cached}, prefetch, local_hits), BEHIND)
    (row,) = tables["requests"].to_pylist()
    return row["local_cached_tokens"], row["external_cached_tokens"], row["load_ms"]


def test_without_lmcache_all_cached_tokens_are_the_engines() -> None:
    """An arm with nothing behind the engine has no external hits."""
    assert _joined("recompute", 256, local_hits=256) == (256, 0, None)


def test_a_request_without_a_prefetch_line_hit_nothing_behind_the_engine() -> None:
    """A full miss leaves no line in LMCache's log."""
    assert _joined("remote", 128, local_hits=128) == (128, 0, None)


def test_all_is_external_where_the_engine_gained_no_local_hit_in_the_pass() -> None:
    """The pass's counter settles it for each of its requests; the prefetch's time is the load's."""
    assert _joined("remote", 1280, prefetch_ms=9.1) == (0, 1280, 9.1)


def test_what_cannot_be_told_stays_null() -> None:
    """A prefetch and local hits in the same pass: which request had which is not known."""
    assert _joined("remote", 1280, prefetch_ms=9.1, local_hits=256) == (None, None, 9.1)
    assert _joined("remote", None) == (None, None, None)


def test_every_row_and_column_is_kept() -> None:
    """The join fills columns in; the schema stays that of the contract."""
    tables = join_loads(_tables({"arm": "remote", "cached_tokens": 1}, None, 0), BEHIND)
    assert {name: table.schema for name, table in tables.items()} == SCHEMAS
    assert tables["requests"].num_rows == 1
