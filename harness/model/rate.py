"""A steady rate from the moments at which equal portions were there."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student_t

from harness.model.estimate import Estimate

_PARTS = 8


def steady_rate(stamps_s: Sequence[float], portion: float) -> Estimate:
    """Portions of that size a second from the first stamp to the last; 95 % by Student's t over equal parts of them.

    No interval with fewer than two portions. Raises ValueError unless stamps rise from the first to the last.
    """
    if len(stamps_s) < 2 or not stamps_s[-1] > stamps_s[0]:
        raise ValueError(f"{len(stamps_s)} stamps over {stamps_s[-1:]} make no rate")
    portions = len(stamps_s) - 1
    total = portion * portions / (stamps_s[-1] - stamps_s[0])
    parts = np.array_split(np.diff(stamps_s), min(_PARTS, portions))
    rates = [portion * len(part) / float(part.sum()) for part in parts if part.sum() > 0]
    if len(rates) < 2:
        return Estimate(total, None, None, portions, "one portion")
    half = float(student_t.ppf(0.975, len(rates) - 1)) * float(np.std(rates, ddof=1)) / math.sqrt(len(rates))
    return Estimate(total, max(0.0, total - half), total + half, portions, "95 %, Student's t over parts of the time")
