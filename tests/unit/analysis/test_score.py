"""Prediction beside measurement, on a run whose times are the model's own."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from harness.analysis import summarise, to_json
from harness.analysis.break_even import break_even
from harness.analysis.finding import Finding
from harness.analysis.score import fixed_cost_findings, score_findings
from harness.records import SCHEMAS, Run
from harness.report.score import score_table, winner_table
from tests.fakes.runs import PROMPT_TOKENS, FakePass, fake_arm, fake_run

RATE, SIZE, LINK = 1000.0, 1000, 400_000.0  # recomputing 100 tokens takes 100 ms, loading 96 of them 240 ms
FIXED_MS, CACHED = 20.0, 96
HIT_MS = FIXED_MS + CACHED * SIZE / LINK * 1e3
META: dict[str, Any] = {
    "probe": {"prefill_tokens_per_s": RATE, "kv_bytes_per_token": SIZE, "bstar_bytes_per_s": RATE * SIZE},
    "arms": {"recompute": {}, "valkey-1": {"link_bytes_per_s": LINK, "instances": 1}},
    "plans": {"trace/0": {"rate_per_s": 2.0}},
}


def run(hit_ms: float = HIT_MS, **meta: Any) -> Run:
    """Recompute and one slow Valkey, in a closed loop and in a trace; six warm hits before."""
    passes = [
        FakePass("recompute", [100.0] * 100, name="replay"),
        FakePass("valkey-1", [hit_ms] * 100, name="replay"),
        FakePass("recompute", [100.0] * 10, workload="docs", name="again"),
        FakePass("valkey-1", [hit_ms] * 10, workload="docs", name="again"),
        FakePass("valkey-1", [HIT_MS] * 6, workload="warmup", name="warmup"),
    ]
    made = fake_run(passes, **(META | meta))
    rows = made.requests.to_pylist()
    for row in rows:
        row["cached_tokens"] = CACHED if row["arm"] == "valkey-1" else 0
    return replace(made, requests=pa.Table.from_pylist(rows, schema=SCHEMAS["requests"]))


HIT = {"cached_tokens": CACHED}
FOUR: dict[str, Any] = {
    "arms": {"valkey-4": {"link_bytes_per_s": LINK / 4, "instances": 4}},
    "spec": {"arms": [{"name": "valkey-4", "lmcache": {"mode": "mp"}, "valkey": {"instances": 4}}]},
}


def sharded(warm: Sequence[float], again: Sequence[float], *, known: bool = True) -> Run:
    """Hits of one length on four instances, `warm` and `again` being the slowdowns of each by its placement."""
    passes = [
        FakePass("valkey-4", [FIXED_MS + one * (HIT_MS - FIXED_MS) for one in slowdowns], workload=workload, name=name)
        for slowdowns, workload, name in ((warm, "warmup", "warmup"), (again, "docs", "again"))
    ]
    made = fake_run(passes, **(META | FOUR))
    rows = made.requests.to_pylist()
    for row, slowdown in zip(rows, (*warm, *again), strict=True):
        row |= {"cached_tokens": CACHED, "placement_slowdown": slowdown if known else None}
    return replace(made, requests=pa.Table.from_pylist(rows, schema=SCHEMAS["requests"]))


def value(findings: tuple[Finding, ...], name: str, **by: str) -> float:
    """The one finding of that name whose `by` has these keys and values."""
    (found,) = [one for one in findings if one.name == name and by.items() <= one.by.items()]
    return found.estimate.value


def test_a_machine_as_the_model_says_is_predicted_exactly() -> None:
    """Closed loop: hit and recompute times are the model's own; predicted / measured is 1."""
    found = score_findings(run(), 50)
    assert value(found, "predicted_p50", workload="docs", kind="hit") == pytest.approx(HIT_MS)
    assert value(found, "predicted_p50", workload="docs", kind="recompute") == pytest.approx(100)
    for kind in ("hit", "recompute"):
        assert value(found, "predicted_over_measured_p50", workload="docs", kind=kind) == pytest.approx(1)


def test_loads_and_winners_are_predicted() -> None:
    """At 2 a second: rho 0.48 of the link, load 0.2 of the engine, and recompute wins at p50 and p99."""
    found = score_findings(run(), 50)
    assert value(found, "predicted_rho", kind="hit") == pytest.approx(2 * CACHED * SIZE / LINK)
    assert value(found, "predicted_rho", kind="recompute") == pytest.approx(0.2)
    for name in ("p50", "p99"):
        assert value(found, f"predicted_{name}_ratio", workload="trace") > 1


def test_the_load_is_measured_by_what_was_counted() -> None:
    """Bytes out of the Valkey over its link, tokens computed at R, each over the 100 s in which 100 requests came."""
    passes = [
        FakePass("recompute", [100.0] * 100, counters={"prompt_tokens_local_compute": 100 * PROMPT_TOKENS}),
        FakePass("valkey-1", [HIT_MS] * 100, counters={"valkey_bytes_out": 100 * CACHED * SIZE}, columns=HIT),
        FakePass("valkey-1", [HIT_MS] * 6, workload="warmup", name="warmup", columns=HIT),
    ]
    found = score_findings(fake_run(passes, **META), 50)
    assert value(found, "measured_rho", kind="recompute") == pytest.approx(PROMPT_TOKENS / RATE)
    assert value(found, "measured_rho", kind="hit") == pytest.approx(CACHED * SIZE / LINK)


def test_a_queue_that_grows_shows_its_load() -> None:
    """Each second the response time is 200 ms longer: the tier falls behind by a fifth, so that rho is 1.2."""
    rising = FakePass("valkey-1", [HIT_MS + 200.0 * seq for seq in range(100)], columns=HIT)
    warm = FakePass("valkey-1", [HIT_MS] * 6, workload="warmup", name="warmup", columns=HIT)
    found = score_findings(fake_run([rising, warm], **META), 50)
    assert value(found, "measured_rho", kind="hit") == pytest.approx(1.2, abs=1e-3)


def test_without_a_steady_state_no_quantile_is_predicted() -> None:
    """At 5 a second rho is 1.2: told, and p50 and p99 of hits are without end, as is the ratio."""
    found = score_findings(run(plans={"trace/0": {"rate_per_s": 5.0}}), 50)
    assert value(found, "predicted_rho", kind="hit") == pytest.approx(1.2)
    assert math.isinf(value(found, "predicted_p50", workload="trace", kind="hit"))
    assert math.isinf(value(found, "predicted_p99_ratio", workload="trace"))
    assert not [one for one in found if one.name == "predicted_over_measured_p99" and one.by["kind"] == "hit"]
    summary = summarise(run(plans={"trace/0": {"rate_per_s": 5.0}}), 50)
    (row,) = [row.cells for row in winner_table(summary).of("trace/replay").rows]
    assert (row[2], row[4]) == ("without end", "yes")
    assert '"value": Infinity' not in json.dumps(to_json(summary))


def test_loads_in_the_step_queue_at_the_engine() -> None:
    """LMCache in the workers: the load is lambda times a whole hit, T0 included, and the p99 waits for it."""
    arms = [{"name": "recompute"}, {"name": "valkey-1", "lmcache": {"mode": "inprocess"}, "valkey": {"instances": 1}}]
    held, beside = score_findings(run(spec={"arms": arms}), 50), score_findings(run(), 50)
    assert value(held, "predicted_rho", kind="hit") == pytest.approx(2 * HIT_MS / 1e3)
    later = [value(found, "predicted_p99", workload="trace", kind="hit") for found in (held, beside)]
    assert later[0] > later[1]


def test_a_wrong_prediction_is_told_as_one() -> None:
    """Hits twice as slow as in the warm-up: predicted / measured is a half."""
    found = score_findings(run(2 * HIT_MS), 50)
    assert value(found, "predicted_over_measured_p50", workload="docs", kind="hit") == pytest.approx(0.5)


def test_t0_and_the_median_are_free_of_where_chunks_lie() -> None:
    """The warm-up's prompts lay well, the measured ones badly: both are known, so the prediction is exact."""
    found = score_findings(sharded([1.6] * 4 + [2.4] * 3, [1.6] * 4 + [2.4] * 5 + [3.2]), 50)
    assert value(found, "predicted_over_measured_p50", kind="hit") == pytest.approx(1)
    assert value(found, "predicted_p50", kind="hit") == pytest.approx(FIXED_MS + 2.4 * (HIT_MS - FIXED_MS))


def test_where_placement_is_not_known_the_mean_is_taken() -> None:
    """Of one chunk on four instances all is on one of them: four times an equal share, told without any key."""
    found = score_findings(sharded([4.0] * 6, [4.0] * 6, known=False), 50)
    assert value(found, "predicted_over_measured_p50", kind="hit") == pytest.approx(1)


def test_storing_is_in_what_an_arm_recomputes() -> None:
    """Its warm-up's cold round took 7 % longer than the engine alone: so will its first pass.

    What first touched LMCache's memory took longer still, and tells nothing.
    """
    passes = [
        FakePass("recompute", [100.0] * 10, workload="docs", name="first"),
        FakePass("valkey-1", [140.0] * 6, workload="touch", name="warmup"),
        FakePass("valkey-1", [107.0] * 6, workload="warmup", name="warmup"),
        FakePass("valkey-1", [107.0] * 10, workload="docs", name="first"),
    ]
    found = score_findings(fake_run(passes, **META), 50)
    assert value(found, "predicted_p50", arm="recompute") == pytest.approx(100)
    assert value(found, "predicted_over_measured_p50", arm="valkey-1") == pytest.approx(1)


def test_only_what_was_loaded_is_a_hit_of_the_tier() -> None:
    """Found in vLLM's own cache (inside the step), or in host memory: no load from a Valkey is predicted of it."""
    arms = [{"name": "valkey-1", "lmcache": {"mode": "inprocess"}, "valkey": {"instances": 1}}]
    for spec, columns in (
        ({"arms": arms}, {"external_cached_tokens": 0}),
        ({"arms": [fake_arm("valkey-1")]}, {"loaded_l1_keys": 5, "loaded_l2_keys": 0}),
    ):
        near = FakePass(
            "valkey-1", [5.0] * 6, workload="docs", name="again", columns={"cached_tokens": CACHED, **columns}
        )
        warm = FakePass("valkey-1", [HIT_MS] * 6, workload="warmup", name="warmup", columns=HIT)
        far = replace(near, ttft_ms=[HIT_MS] * 6, name="reverse", columns=HIT)
        found = score_findings(fake_run([warm, near, far], **(META | {"spec": spec})), 50)
        assert {one.by["pass"] for one in found if one.by.get("kind") == "hit"} == {"reverse"}


def test_a_run_that_probed_nothing_has_no_score() -> None:
    """No R, no prediction, and no T0."""
    assert score_findings(run(probe=None), 50) == ()
    assert list(fixed_cost_findings(run(probe=None))) == []


def test_t0_of_an_arm_is_what_its_warm_hits_took_beyond_the_transfer() -> None:
    """By arm with LMCache, in seconds."""
    (found,) = fixed_cost_findings(run())
    assert (found.name, found.by, found.unit) == ("hit_fixed_s", {"arm": "valkey-1"}, "s")
    assert found.estimate.value == pytest.approx(FIXED_MS / 1e3)


def test_break_even_of_each_arm() -> None:
    """Each arm stands at its bandwidth and its median hit; its line, of its own T0, is n* = R T0 / (1 - B*/B)."""
    summary = summarise(run(), 50)
    picture = break_even(run(), summary.findings)
    assert picture is not None
    assert picture.bstar_bytes_per_s == RATE * SIZE
    (point,) = picture.points
    assert (point.arm, point.bandwidth_bytes_per_s, point.hit_tokens) == ("valkey-1", LINK, CACHED)
    assert point.line
    for bandwidth, tokens in point.line:
        assert bandwidth > picture.bstar_bytes_per_s
        assert tokens == pytest.approx(RATE * FIXED_MS / 1e3 / (1 - RATE * SIZE / bandwidth))
    assert break_even(run(probe=None), ()) is None


def test_the_report_has_a_row_each_and_says_who_wins() -> None:
    """Two kinds in two workloads; by both prediction and measurement recompute wins."""
    summary = summarise(run(), 50)
    rows = [row.cells for row in score_table(summary).of("docs/again").rows]
    assert [(row[1], row[2]) for row in rows] == [
        ("recompute", "recompute of 100 tokens"),
        ("valkey-1", "hit of 96 tokens"),
    ]
    (docs,) = [row.cells for row in winner_table(summary).of("docs/again").rows]
    assert docs[1] == "valkey-1"
    assert docs[4] == "yes"
