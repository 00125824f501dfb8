"""A rate from the times that equal portions took."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student_t

from harness.model.estimate import Estimate


def mean_rate(times_s: Sequence[float], portion: float) -> Estimate:
    """All portions / all time, in units of `portion` a second; 95 % by Student's t over the times of one portion each.

    No interval of a single one. Raises ValueError unless there is a time and all are above zero.
    """
    if not times_s or not all(time_s > 0 for time_s in times_s):
        raise ValueError(f"times {list(times_s)[:5]} make no rate")
    count, mean_s = len(times_s), float(np.mean(times_s))
    if count < 2:
        return Estimate(portion / mean_s, None, None, count, "one portion")
    half_s = float(student_t.ppf(0.975, count - 1)) * float(np.std(times_s, ddof=1)) / math.sqrt(count)
    high = portion / (mean_s - half_s) if mean_s > half_s else math.inf
    return Estimate(portion / mean_s, portion / (mean_s + half_s), high, count, "95 %, Student's t over the times")
