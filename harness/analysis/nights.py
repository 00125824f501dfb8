"""One figure night after night: did its level change, does it drift, is tonight out of line?

Everything is done on logarithms, so that changes are ratios. A change of level that lies nights back is still a
regression, as long as nights from before it are among those looked at.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from harness.analysis.finding import Estimate
from harness.analysis.measured import FloatArray
from harness.analysis.ruling import Ruling, rule

FEWEST_NIGHTS = 5
"""A level is known once this many nights had it."""
_SURE = 0.01
_PERCENT = 99.0  # of many figures a night, hardly one may cry wolf


@dataclass(frozen=True, slots=True)
class NightsRuling:
    """`since` is the position in the series at which the level changed, None where it did not."""

    ruling: Ruling
    text: str
    ratio: Estimate | None = None
    since: int | None = None


def judge_nights(values: Sequence[float], limit: float) -> NightsRuling:
    """`values` in order of time, tonight's last; more is worse. All must be above zero and finite."""
    logs, begin = np.log(np.asarray(values, dtype=np.float64)), 0
    improved: NightsRuling | None = None
    while True:
        window = logs[begin:]
        if len(window) <= FEWEST_NIGHTS:
            if improved is not None:
                return improved
            known = len(window) - 1
            return NightsRuling(Ruling.NOISY, f"{known} night(s) of this level before tonight, {FEWEST_NIGHTS} needed")
        split = _change_point(window)
        drift = _drift(window)
        if drift.low is not None and drift.low > 1 + limit and _line_fits_better(window, split):
            _, text = rule(drift, limit)
            return NightsRuling(Ruling.REGRESSED, f"drifts, over {len(window)} nights: {text}", drift, begin)
        if split is None:
            break
        shift = _shift(window[:split], window[split:])
        ruling, text = rule(shift, limit)
        begin += split
        text = f"the level changed {len(values) - begin} night(s) ago: {text}"
        if ruling is Ruling.REGRESSED:
            return NightsRuling(ruling, text, shift, begin)
        improved = NightsRuling(ruling, text, shift, begin)
    tonight = _tonight(window)
    ruling, text = rule(tonight, limit)
    return NightsRuling(ruling, f"{text}, beside {len(window) - 1} nights", tonight)


def _change_point(logs: FloatArray) -> int | None:
    """Where the series is cut best into two levels, if that is sure (two-sample t, Bonferroni over all cuts)."""
    cuts = range(FEWEST_NIGHTS, len(logs))
    found = [(_p_value(logs[:cut], logs[cut:]), cut) for cut in cuts]
    p_value, cut = min(found)
    return cut if p_value * len(found) < _SURE else None


def _p_value(before: FloatArray, after: FloatArray) -> float:
    distance, error, free = _two_levels(before, after)
    if error == 0:
        return 0.0 if abs(distance) > 1e-9 else 1.0
    return float(2 * stats.t.sf(abs(distance) / error, free))


def _shift(before: FloatArray, after: FloatArray) -> Estimate:
    distance, error, free = _two_levels(before, after)
    return _ratio(distance, error * _t(free), len(before) + len(after), "two levels, pooled variance, Student's t")


def _two_levels(before: FloatArray, after: FloatArray) -> tuple[float, float, int]:
    """Distance of the means, its standard error by the pooled variance, degrees of freedom."""
    free = len(before) + len(after) - 2
    squares = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
    error = math.sqrt(squares / free * (1 / len(before) + 1 / len(after)))
    return float(after.mean() - before.mean()), error, free


def _drift(logs: FloatArray) -> Estimate:
    line = stats.linregress(np.arange(len(logs)), logs)
    nights = len(logs) - 1
    reach = float(line.stderr) * nights * _t(len(logs) - 2)
    return _ratio(float(line.slope) * nights, reach, len(logs), "straight line through the logarithms")


def _line_fits_better(logs: FloatArray, cut: int | None) -> bool:
    line = np.polynomial.Polynomial.fit(np.arange(len(logs)), logs, 1)
    of_line = float(((logs - line(np.arange(len(logs)))) ** 2).sum())
    parts = [logs] if cut is None else [logs[:cut], logs[cut:]]
    return of_line < sum(float(((part - part.mean()) ** 2).sum()) for part in parts)


def _tonight(logs: FloatArray) -> Estimate:
    """Tonight over the level of the nights before, with the interval that one more night of that level would have."""
    before = logs[:-1]
    spread = float(before.std(ddof=1)) * math.sqrt(1 + 1 / len(before))
    return _ratio(float(logs[-1] - before.mean()), spread * _t(len(before) - 1), len(logs), "prediction, Student's t")


def _t(free: int) -> float:
    return float(stats.t.ppf(0.5 + _PERCENT / 200, free))


def _ratio(distance: float, reach: float, n: int, method: str) -> Estimate:
    return Estimate(math.exp(distance), math.exp(distance - reach), math.exp(distance + reach), n, method)
