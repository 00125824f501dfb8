"""How loaded what a replay waited for was, as it was measured: beside the rho that the model predicts."""

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from harness.analysis.arms import rows_of, thirds
from harness.analysis.finding import Estimate, Finding
from harness.analysis.group_checks import is_rising
from harness.analysis.measured import Group
from harness.analysis.score_model import ArmModel
from harness.analysis.trend import trend_findings


def measured_rho(group: Group, own: ArmModel, passes: pd.DataFrame, by: Mapping[str, str]) -> Iterator[Finding]:
    """rho of a replay, for hits or recomputed prompts as `by` says; nothing where nothing tells it.

    A queue that grows falls behind by rho - 1 a second, the slope of the response time. In a steady state it is the
    time that what was counted takes (bytes out of the Valkeys over the links, or tokens computed at R), over the
    time in which the requests came.
    """
    slope = next((one.estimate for one in trend_findings(group) if one.name == "ttft_due_slope"), None)
    if slope is not None and is_rising([float(np.median(third)) for third in thirds(group)]):
        low, high = (None if end is None else 1 + end / 1e3 for end in (slope.low, slope.high))
        rho = Estimate(1 + slope.value / 1e3, low, high, slope.n, "1 + slope of the response time")
        yield Finding("measured_rho", "", rho, by)
        return
    is_hit = by["kind"] == "hit"
    column = "valkey_bytes_out" if is_hit else "prompt_tokens_local_compute"
    rate = own.model.bandwidth_bytes_per_s if is_hit else own.model.prefill_tokens_per_s
    counted = rows_of(passes, group)[column]
    came_s = sum(_came_s(rows["due_ns"]) for _, rows in group.requests.groupby("repeat"))
    if not own.in_step and len(counted) and counted.notna().all() and came_s and math.isfinite(rate):
        load = float(counted.sum()) / rate / came_s
        yield Finding("measured_rho", "", Estimate(load, None, None, len(counted), column), by)


def _came_s(due_ns: "pd.Series[int]") -> float:
    """From the first due to one mean gap after the last."""
    n = len(due_ns)
    return 0.0 if n < 2 else float(due_ns.max() - due_ns.min()) / 1e9 * n / (n - 1)
