"""Steadiness of a replay."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.arms import arm_findings
from harness.analysis.finding import Finding
from tests.fakes.runs import FakePass, fake_run

SECOND = 1_000_000_000


def found(p: FakePass) -> dict[str, Finding]:
    """The findings of a pass by name."""
    return {f.name: f for f in arm_findings(fake_run([p]), 20)}


@settings(deadline=None, max_examples=20)
@given(slope=st.floats(-5, 50))
def test_slope(slope: float) -> None:
    """A response time that grows by so many ms a second has that slope, and an interval around it."""
    values = [1000.0 + slope * second for second in range(60)]
    estimate = found(FakePass("recompute", values))["ttft_due_slope"].estimate
    assert estimate.value == pytest.approx(slope, abs=1e-6)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low - 1e-6 <= slope <= estimate.high + 1e-6


def test_one_slow_request_is_no_trend() -> None:
    """The slope is that of medians of blocks: an outlier does not bend it."""
    values = [100.0] * 60
    values[-1] = 60_000.0
    assert found(FakePass("recompute", values))["ttft_due_slope"].estimate.value == 0


def test_backlog_and_drain() -> None:
    """The last request is due at 7 s; all three are done at 11 s: a backlog of three, drained in 4 s."""
    numbers = found(FakePass("recompute", [1.0, 2.0, 3.0], columns={"sent_ns": 5 * SECOND, "done_ns": 11 * SECOND}))
    assert numbers["backlog_at_last_arrival"].estimate.value == 3
    assert numbers["drain_s"].estimate.value == 4


def test_closed_loops_have_none() -> None:
    """With a fixed number of requests in flight there is no backlog to grow."""
    numbers = found(FakePass("recompute", [1.0] * 30, name="first", columns={"sent_ns": 1, "done_ns": 2}))
    assert not {"ttft_due_slope", "backlog_at_last_arrival", "drain_s"} & numbers.keys()
