"""From resamples, or from repeats, to an interval, widened by Student's factor for what few blocks or few runs hide."""

import math

import numpy as np
from scipy import stats

from harness.analysis.measured import FloatArray

PERCENT = 95.0
"""The confidence of every interval that is shown."""

Interval = tuple[float, float] | tuple[None, None]


def of_draws(
    value: float, draws: FloatArray, blocks: int, *, positive: bool, percent: float = PERCENT
) -> tuple[float | None, float | None]:
    """The interval of `value` from its resamples (`draws`, shape [resamples]) of `blocks` blocks of requests.

    Percentiles of the draws, their distance from `value` stretched by t / z sqrt(k / (k - 1)) with k blocks: a
    resample of k blocks has (k - 1) / k of the variance, and k blocks tell that variance no better than k values do.
    Distances are those of logarithms where all is `positive`. (None, None) with fewer than two blocks.
    """
    present = draws[np.isfinite(draws)]
    if blocks < 2 or present.size == 0 or not math.isfinite(value):
        return None, None
    tail = (100 - percent) / 2
    low, high = (float(edge) for edge in np.percentile(present, (tail, 100 - tail)))
    above = 1 - tail / 100
    stretch = float(stats.t.ppf(above, blocks - 1) / stats.norm.ppf(above)) * math.sqrt(blocks / (blocks - 1))
    if positive and min(value, low) > 0:
        low, high = (value * (edge / value) ** stretch for edge in (low, high))
    else:
        low, high = (value + stretch * (edge - value) for edge in (low, high))
    return _around(value, low, high)


def of_repeats(
    value: float, repeats: FloatArray, *, positive: bool, percent: float = PERCENT
) -> tuple[float | None, float | None]:
    """The interval of `value` from the same figure of each repeat (shape [repeats]): Student's t, the run as the unit.

    value +- t s / sqrt(R) with s the standard deviation between R repeats; of logarithms where all is `positive`.
    (None, None) with fewer than two repeats that have the figure.
    """
    present = repeats[np.isfinite(repeats)]
    if present.size < 2 or not math.isfinite(value):
        return None, None
    log = positive and bool(np.all(present > 0)) and value > 0
    spread = float(np.std(np.log(present) if log else present, ddof=1))
    reach = float(stats.t.ppf(0.5 + percent / 200, present.size - 1)) * spread / math.sqrt(present.size)
    if log:
        return value * math.exp(-min(reach, 700.0)), value * math.exp(min(reach, 700.0))
    return value - reach, value + reach


def _around(value: float, low: float, high: float) -> tuple[float | None, float | None]:
    if not (math.isfinite(low) and math.isfinite(high)):
        return None, None
    return min(low, value), max(high, value)
