"""Findings by arm, workload and pass."""

import pytest

from harness.analysis.arms import arm_findings
from harness.analysis.finding import Finding
from harness.records import Run
from tests.fakes.runs import FakePass, fake_run


def found(run: Run, arm: str) -> dict[str, Finding]:
    """The findings of an arm by name."""
    return {f.name: f for f in arm_findings(run, resamples=20) if f.by["arm"] == arm}


def test_counts() -> None:
    """Failures are counted against what was planned, and are in no latency."""
    numbers = found(fake_run([FakePass("recompute", [10.0, None, 30.0])]), "recompute")
    assert [numbers[name].estimate.value for name in ("requests", "ok", "failures")] == [3, 2, 1]
    assert (numbers["ttft_mean"].estimate.value, numbers["ttft_mean"].estimate.n) == (20.0, 2)


def test_two_latencies() -> None:
    """Both are told: from sent, and from due."""
    numbers = found(fake_run([FakePass("recompute", [10.0, 20.0, 30.0], send_lag_ms=5.0)]), "recompute")
    assert (numbers["ttft_p50"].estimate.value, numbers["ttft_due_p50"].estimate.value) == (20.0, 25.0)


def test_ratio_to_recompute() -> None:
    """The ratio divides the two printed numbers of the same workload and pass; recompute has none to itself."""
    run = fake_run([FakePass("recompute", [10.0, 20.0, 30.0]), FakePass("host", [5.0, 8.0, 9.0])])
    host, recompute = found(run, "host"), found(run, "recompute")
    assert host["ttft_p50_ratio"].estimate.value == pytest.approx(0.4)
    expected = host["ttft_p99"].estimate.value / recompute["ttft_p99"].estimate.value
    assert host["ttft_p99_ratio"].estimate.value == pytest.approx(expected)
    assert "ttft_p50_ratio" not in recompute


def test_no_ratio_without_recompute() -> None:
    """With LMCache in every arm, or another pass, there is nothing to divide by."""
    only_host = fake_run([FakePass("host", [5.0, 8.0]), FakePass("valkey-1", [5.0, 8.0])])
    other_pass = fake_run([FakePass("recompute", [5.0], name="first"), FakePass("host", [5.0], name="again")])
    assert "ttft_p50_ratio" not in found(only_host, "valkey-1")
    assert "ttft_p50_ratio" not in found(other_pass, "host")


def test_hits_are_counter_deltas() -> None:
    """Hits are summed over repeats; a counter that was missing once is missing, not smaller."""
    counters = {"prefix_cache_hits": 700, "external_prefix_cache_hits": 50}
    run = fake_run(
        [
            FakePass("host", [5.0], counters=counters),
            FakePass("host", [5.0], repeat=1, counters={"prefix_cache_hits": 1}),
        ]
    )
    numbers = found(run, "host")
    assert numbers["prefix_cache_hits"].estimate.value == 701
    assert "external_prefix_cache_hits" not in numbers


def test_thirds_of_a_replay() -> None:
    """The medians of the first, second and last third of a trace, by position in the plan."""
    numbers = found(fake_run([FakePass("recompute", [1.0, 2.0, 3.0, None, 5.0, 5.0, 7.0, 8.0, 9.0])]), "recompute")
    assert [numbers[f"ttft_p50_third_{n}"].estimate.value for n in (1, 2, 3)] == [2.0, 5.0, 8.0]


def test_no_thirds_in_a_closed_loop() -> None:
    """One request at a time cannot make a queue grow: a pass that reads its misses last is not unstable."""
    numbers = found(fake_run([FakePass("recompute", [17.0, 18.0, 190.0], name="reverse")]), "recompute")
    assert "ttft_p50_third_1" not in numbers


def test_arm_that_failed_throughout() -> None:
    """An arm without one success has its counts, and no latency."""
    numbers = found(fake_run([FakePass("recompute", [1.0] * 3), FakePass("valkey-1", [None] * 3)]), "valkey-1")
    assert sorted(numbers) == ["failures", "ok", "requests"]
