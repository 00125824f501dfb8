"""Throughput, goodput and hit rates."""

import pytest

from harness.analysis.arms import arm_findings
from harness.analysis.finding import Finding
from harness.analysis.rates import Slo
from harness.records import Run
from tests.fakes.runs import FakePass, fake_run

SECOND = 1_000_000_000


def found(run: Run, *slos: Slo) -> dict[str, Finding]:
    """The findings of the run's only arm as a whole, by name."""
    return {f.name: f for f in arm_findings(run, 20, slos) if f.by.keys() == {"arm", "workload", "pass"}}


def timed(ttft_ms: list[float | None], **columns: object) -> FakePass:
    """A pass whose requests were sent at 5 s and done at 9 s."""
    times = {"sent_ns": 5 * SECOND, "done_ns": 9 * SECOND, "prompt_tokens": 100, "completion_tokens": 8}
    return FakePass("recompute", ttft_ms, columns=times | columns)


def test_throughput() -> None:
    """What succeeded, over the time from the first sent to the last done; repeats add up on both sides."""
    numbers = found(fake_run([timed([1.0, 2.0, None])]))
    assert numbers["requests_per_s"].estimate.value == pytest.approx(2 / 4)
    assert numbers["input_tokens_per_s"].estimate.value == pytest.approx(200 / 4)
    assert numbers["output_tokens_per_s"].estimate.value == pytest.approx(16 / 4)


def test_goodput() -> None:
    """Requests that keep every limit; failed ones count against the share."""
    run = fake_run([timed([1.0, 2.0, 3.0, None], e2el_ms=10.0)])
    numbers = found(run, Slo("ttft", 2.0), Slo("e2el", 10.0))
    assert numbers["goodput_per_s"].estimate.value == pytest.approx(2 / 4)
    assert numbers["slo_share"].estimate.value == pytest.approx(2 / 4)
    assert found(run, Slo("e2el", 9.0))["slo_share"].estimate.value == 0


def test_no_limits_no_goodput() -> None:
    """Nobody's limits are guessed."""
    assert not {"goodput_per_s", "slo_share"} & found(fake_run([timed([1.0])])).keys()


def test_a_single_token_breaks_no_tpot_limit() -> None:
    """A request without the figure keeps the limit on it."""
    assert found(fake_run([timed([1.0])]), Slo("tpot", 0.1))["slo_share"].estimate.value == 1


def test_nothing_sent_no_rate() -> None:
    """Without a request sent and done there is no time to divide by."""
    assert "requests_per_s" not in found(fake_run([FakePass("recompute", [None])]))


def test_hit_rates() -> None:
    """Hits over queries, of the engine's counters; cached over prompt tokens, of the requests."""
    counters = {
        "prefix_cache_queries": 1000,
        "prefix_cache_hits": 250,
        "external_prefix_cache_queries": 750,
        "external_prefix_cache_hits": 600,
    }
    run = fake_run([FakePass("host", [1.0, 2.0], counters=counters, columns={"cached_tokens": 85})])
    numbers = found(run)
    assert numbers["prefix_cache_hit_rate"].estimate.value == 0.25
    assert numbers["external_prefix_cache_hit_rate"].estimate.value == 0.8
    assert numbers["cached_share"].estimate.value == 0.85
