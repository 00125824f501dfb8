"""harness.analysis.explained: where TTFT went, by arm, workload and pass."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from harness.analysis.explained import explained_caveats, explained_findings
from harness.records import SCHEMAS, Run
from tests.fakes.runs import FakePass, fake_run

S = 10**9
T0 = 1_800_000_000 * S
COMPUTED = {"prompt_tokens_local_compute": 500, "external_prefix_cache_hits": 1280}


def _run(rows: Sequence[dict[str, Any]], loads: Sequence[dict[str, Any]] = (), **counters: int) -> Run:
    fake = FakePass("valkey-1", [100.0] * len(rows), counters=counters)
    run = fake_run([fake], probe={"prefill_tokens_per_s": 1000.0})
    requests = [
        {**row, "sent_ns": row["due_ns"], "done_ns": row["due_ns"] + S, "t0_unix_ns": T0, **more}
        for row, more in zip(run.requests.to_pylist(), rows, strict=True)
    ]
    passes = [{**row, "duration_s": 2.0} for row in run.passes.to_pylist()]
    return replace(
        run,
        requests=pa.Table.from_pylist(requests, schema=SCHEMAS["requests"]),
        loads=pa.Table.from_pylist([{"arm": "valkey-1", **load} for load in loads], schema=SCHEMAS["loads"]),
        passes=pa.Table.from_pylist(passes, schema=SCHEMAS["passes"]),
    )


def _value(run: Run, name: str) -> float:
    (found,) = [finding for finding in explained_findings(run) if finding.name == name]
    return found.estimate.value


HIT = {"lookup": "l2", "queue_ms": 10.0, "load_wait_ms": 50.0, "load_ms": 20.0, "recompute_ms": 10.0}
HIT |= {"delivery_ms": 5.0, "unexplained_ms": 5.0, "external_cached_tokens": 1280, "loaded_bytes_per_s": 1e6}
MISS = {"lookup": "missed_inferred", "queue_ms": 20.0, "recompute_ms": 60.0, "delivery_ms": 5.0}
MISS |= {"unexplained_ms": 15.0, "external_cached_tokens": 0}


def test_the_means_of_the_parts_add_up_to_the_mean_ttft() -> None:
    """A part that a request has not counts nothing; shares and lookups are of requests."""
    run = _run([HIT, MISS])
    parts = ("queue", "load_wait", "load", "recompute", "delivery", "unexplained")
    assert sum(_value(run, f"{part}_mean") for part in parts) == pytest.approx(100.0)
    assert _value(run, "load_wait_mean") == 25.0
    assert _value(run, "unexplained_share_p50") == pytest.approx(0.1)
    assert (_value(run, "lookup_l2"), _value(run, "lookup_missed_inferred")) == (1, 1)
    assert _value(run, "loaded_bytes_per_s_p50") == 1e6


def test_useful_time_is_tokens_computed_at_r() -> None:
    """500 tokens at 1,000 a second in 2 seconds: a quarter. Without the counter there is no figure."""
    assert _value(_run([HIT], **COMPUTED), "engine_busy_share") == 0.25
    assert all(finding.name != "engine_busy_share" for finding in explained_findings(_run([HIT])))


@pytest.mark.parametrize(
    ("tokens", "engine", "kinds"),
    [(1280, 1280, []), (1024, 1280, ["tokens_three_ways"]), (1280, 0, ["tokens_three_ways"])],
)
def test_tokens_are_counted_three_ways(tokens: int, engine: int, kinds: list[str]) -> None:
    """Client, engine and LMCache must agree; a load outside the pass, or without a time, does not count."""
    load = {"kind": "load", "tokens": tokens, "cost_ms": 1.0, "t_unix_ns": T0 + 5 * S}
    others = [{**load, "t_unix_ns": T0 + 60 * S}, {**load, "cost_ms": None}, {**load, "kind": "store"}]
    run = _run([HIT, MISS], [load, *others], external_prefix_cache_hits=engine)
    assert [scoped.caveat.kind for scoped in explained_caveats(run)] == kinds


@pytest.mark.parametrize(
    ("lookup", "counters", "kinds"),
    [
        ("no_log", {}, ["lookups_not_told", "tier_not_told"]),
        ("hit", {}, ["tier_not_told"]),
        ("l1", {}, []),
        ("hit", {"valkey_get_calls": 0}, []),
        ("hit", {"external_prefix_cache_hits": 0}, []),
    ],
)
def test_hits_of_an_unknown_tier_are_said(lookup: str, counters: dict[str, int], kinds: list[str]) -> None:
    """Neither the log nor a Valkey tells whether LMCache's hits were of its host memory."""
    run = _run([HIT | {"lookup": lookup, "external_cached_tokens": None}], **COMPUTED | counters)
    assert [scoped.caveat.kind for scoped in explained_caveats(run)] == kinds


def test_the_log_that_is_missing_says_so_once() -> None:
    """Where the run already says why no lookup is told, no pass repeats it."""
    run = _run([{"lookup": "no_log"}])
    run = replace(run, meta={**run.meta, "caveats": [{"kind": "lmcache_log", "text": "no log", "remedy": ""}]})
    assert [scoped.caveat.kind for scoped in explained_caveats(run)] == []


def test_lookups_that_nobody_told_of_are_said() -> None:
    """A log that could not be read leaves its requests untold."""
    run = _run([{"lookup": "no_log"}, HIT])
    (scoped,) = explained_caveats(run)
    assert (scoped.caveat.kind, scoped.by["arm"]) == ("lookups_not_told", "valkey-1")
    assert "1 of 2" in scoped.caveat.text
