"""What was predicted of each arm before it was measured, beside what was measured then."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from harness.analysis.arms import thirds
from harness.analysis.finding import Estimate, Finding
from harness.analysis.group_checks import is_rising
from harness.analysis.measured import OPEN_LOOP_PASS, Group, measured_groups
from harness.analysis.trend import slope_of
from harness.records import Run

_KEY = ["repeat", "seq"]


def prediction_findings(run: Run) -> tuple[Finding, ...]:
    """Predicted figures by arm, workload and pass, and predicted / measured; none where nothing was predicted.

    Both sides are of the same requests: those that succeeded. Names: docs/method.md.
    """
    if run.predictions is None or not run.predictions.num_rows:
        return ()
    columns = ["arm", "workload", "pass", *_KEY, "due_ns", "ttft_ms", "ttft_due_ms", "cached_tokens"]
    predicted = run.predictions.select(columns).to_pandas()
    return tuple(finding for group in measured_groups(run) for finding in _scored(group, predicted))


def _scored(group: Group, predicted: pd.DataFrame) -> Iterator[Finding]:
    own = predicted
    for name, value in group.by.items():
        own = own[own[name] == value]
    both = group.ok.merge(own, on=_KEY, suffixes=("", "_predicted"))
    both = both.dropna(subset=["ttft_ms", "ttft_ms_predicted"])
    if not len(both):
        return
    n = len(both)
    for percent in (50, 99):
        ours = float(np.percentile(both["ttft_ms_predicted"], percent))
        theirs = float(np.percentile(both["ttft_ms"], percent))
        yield _finding(f"predicted_ttft_p{percent}", "ms", ours, n, group)
        if theirs > 0:
            yield _finding(f"predicted_ttft_p{percent}_ratio", "x", ours / theirs, n, group)
    yield from _growth(both, group)
    counted = both.dropna(subset=["cached_tokens", "cached_tokens_predicted"])
    if len(counted):
        equal = counted["cached_tokens"] == counted["cached_tokens_predicted"]
        total = float(counted["cached_tokens_predicted"].sum())
        yield _finding("predicted_cached_tokens", "tokens", total, len(counted), group)
        yield _finding("predicted_cached_exactly", "requests", float(equal.sum()), len(counted), group)


def _growth(both: pd.DataFrame, group: Group) -> Iterator[Finding]:
    """How fast the response time was to grow, beside how fast it grew where it did."""
    if group.pass_name != OPEN_LOOP_PASS:
        return
    columns = {"due_ns_predicted": "due_ns", "ttft_due_ms_predicted": "ttft_due_ms"}
    ours = slope_of(both[["repeat", *columns]].rename(columns=columns))
    theirs = slope_of(both)
    if ours is None or theirs is None:
        return
    yield _finding("predicted_ttft_due_slope", "ms/s", ours.value, len(both), group)
    if theirs.value > 0 and is_rising([float(np.median(third)) for third in thirds(group)]):
        yield _finding("predicted_ttft_due_slope_ratio", "x", ours.value / theirs.value, len(both), group)


def _finding(name: str, unit: str, value: float, n: int, group: Group) -> Finding:
    return Finding(name, unit, Estimate(value, None, None, n, "simulated before the arm was measured"), group.by)
