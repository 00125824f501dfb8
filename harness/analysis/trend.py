"""Whether a replay was in a steady state: slope of its response time, the backlog it ended with, how that drained."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from harness.analysis.finding import Estimate, Finding
from harness.analysis.interval import PERCENT
from harness.analysis.measured import OPEN_LOOP_PASS, FloatArray, Group

_FEWEST_FOR_SLOPE = 20


def trend_findings(group: Group) -> Iterator[Finding]:
    """Slope (ms of response time a second of the replay), backlog at the last arrival, drain time; open loop only.

    Of several repeats the slope is that of all points, backlog and drain time are those of the worst repeat.
    """
    if group.pass_name != OPEN_LOOP_PASS:
        return
    slope = slope_of(group.ok)
    if slope is not None:
        yield Finding("ttft_due_slope", "ms/s", slope, group.by)
    ends = [end for _, rows in group.requests.groupby("repeat") if (end := _end(rows)) is not None]
    if ends:
        waiting, drain_s = (max(values) for values in zip(*ends, strict=True))
        worst = f"the worst of {len(ends)} repeats" if len(ends) > 1 else "exact"
        yield Finding("backlog_at_last_arrival", "requests", _told(waiting, len(group.requests), worst), group.by)
        yield Finding("drain_s", "s", _told(drain_s, len(group.requests), worst), group.by)


def slope_of(requests: pd.DataFrame) -> Estimate | None:
    """How fast the response time grows (ms/s) over requests with `repeat`, `due_ns` and `ttft_due_ms`; None for few."""
    points = [_medians(rows) for _, rows in requests.groupby("repeat")]
    times, values = (np.concatenate([one[axis] for one in points]) if points else np.empty(0) for axis in (0, 1))
    if len(requests) < _FEWEST_FOR_SLOPE or len(np.unique(times)) < 2:
        return None
    slope = stats.theilslopes(values, times, alpha=PERCENT / 100)
    method = f"Theil and Sen over the medians of {len(values)} blocks of consecutive requests"
    return Estimate(float(slope[0]), float(slope[2]), float(slope[3]), len(requests), method)


def _medians(rows: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Due time (s after the first) and median response time (ms) of about sqrt(n) blocks of one repeat."""
    rows = rows[np.isfinite(rows["ttft_due_ms"].astype(float))].sort_values("due_ns")
    if rows.empty:
        return np.empty(0), np.empty(0)
    due_s = (rows["due_ns"] - rows["due_ns"].iloc[0]).to_numpy(dtype=np.float64) / 1e9
    waited = rows["ttft_due_ms"].to_numpy(dtype=np.float64)
    blocks = np.array_split(np.arange(len(rows)), max(1, int(np.sqrt(len(rows)))))
    return np.array([due_s[one].mean() for one in blocks]), np.array([np.median(waited[one]) for one in blocks])


def _end(rows: pd.DataFrame) -> tuple[float, float] | None:
    """Requests not yet done when the last one was due (that one included), and seconds from then to the last done."""
    last_due, last_done = rows["due_ns"].max(), rows["done_ns"].max()
    if pd.isna(last_done):
        return None
    waiting = int((rows["done_ns"].isna() & rows["sent_ns"].notna()).sum() + (rows["done_ns"] > last_due).sum())
    return float(waiting), max(0.0, float(last_done - last_due) / 1e9)


def _told(value: float, n: int, method: str) -> Estimate:
    return Estimate(value, value, value, n, method)
