"""Predicted beside measured."""

from dataclasses import replace

import pyarrow as pa
import pytest

from harness.analysis.prediction import prediction_findings
from harness.records import Run
from tests.fakes.runs import FakePass, fake_run


def predicted(passes: list[FakePass], run: Run) -> Run:
    """`run`, with these passes as its predictions."""
    table: pa.Table = fake_run(passes).requests
    return replace(run, predictions=table)


def values(run: Run) -> dict[tuple[str, str], float]:
    """By (arm, name)."""
    return {(one.by["arm"], one.name): one.estimate.value for one in prediction_findings(run)}


def test_a_prediction_twice_as_slow_has_ratio_two() -> None:
    """Predicted / measured, of the same requests: one that failed is on neither side."""
    run = fake_run([FakePass("recompute", [10.0, 20.0, 30.0, None])])
    found = values(predicted([FakePass("recompute", [20.0, 40.0, 60.0, 9999.0])], run))
    assert found["recompute", "predicted_ttft_p50"] == 40.0
    assert found["recompute", "predicted_ttft_p50_ratio"] == 2.0
    assert found["recompute", "predicted_ttft_p99_ratio"] == 2.0
    assert found["recompute", "predicted_cached_exactly"] == 3.0


def test_what_was_not_predicted_has_no_finding() -> None:
    """An arm without a prediction, and a run without any."""
    run = fake_run([FakePass("recompute", [10.0]), FakePass("valkey-1", [10.0])])
    assert prediction_findings(run) == ()
    arms = {arm for arm, _ in values(predicted([FakePass("valkey-1", [11.0])], run))}
    assert arms == {"valkey-1"}


def test_a_growth_twice_as_fast_has_ratio_two() -> None:
    """Of an arm whose queue grew; what was steady has a predicted slope, and no ratio to one that is none."""
    seconds = [float(second) for second in range(60)]
    run = fake_run(
        [FakePass("valkey-1", [100.0 + 20 * second for second in seconds]), FakePass("recompute", [100.0] * 60)]
    )
    found = values(
        predicted(
            [FakePass("valkey-1", [100.0 + 40 * second for second in seconds]), FakePass("recompute", [100.0] * 60)],
            run,
        )
    )
    assert found["valkey-1", "predicted_ttft_due_slope"] == pytest.approx(40.0)
    assert found["valkey-1", "predicted_ttft_due_slope_ratio"] == pytest.approx(2.0)
    assert found["recompute", "predicted_ttft_due_slope"] == pytest.approx(0.0)
    assert ("recompute", "predicted_ttft_due_slope_ratio") not in found


def test_a_closed_loop_has_no_growth() -> None:
    """With a fixed number in flight no queue can grow."""
    run = fake_run([FakePass("recompute", [10.0] * 30, name="again")])
    found = values(predicted([FakePass("recompute", [10.0] * 30, name="again")], run))
    assert ("recompute", "predicted_ttft_due_slope") not in found
