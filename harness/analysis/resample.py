"""How sure a percentile is: a bootstrap that keeps requests next to their neighbours.

Requests of one run are not independent (they share a queue), so whole repeats are drawn, and within each the requests
in circular blocks of consecutive ones (Politis and Romano, 1992), floor(sqrt(n)) long: longer than the customary
n^(1/3), since a queue remembers for long. Equal seeds draw equal positions, so two arms that replayed the same plan are
resampled in pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.finding import Estimate
from harness.analysis.measured import FloatArray

IntArray = npt.NDArray[np.int64]

STATISTICS = ("p50", "mean", "p99")
RESAMPLES = 1000
_INTERVAL_PERCENT = (2.5, 97.5)
_VALUES_AT_ONCE = 1_000_000  # 8 MB an array: resamples are drawn in portions of about that size


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """p50, mean and p99 of a group: `point` (shape [3]), and of each resample: `draws` (shape [resamples, 3])."""

    point: FloatArray
    draws: FloatArray
    n: int
    method: str

    def estimate(self, statistic: str) -> Estimate:
        """The statistic (one of STATISTICS) with its 95 % percentile interval."""
        index = STATISTICS.index(statistic)
        return _estimate(float(self.point[index]), self.draws[:, index], self.n, self.method)

    def ratio(self, base: "Latency", statistic: str) -> Estimate:
        """The statistic divided by that of `base`, with its interval; equal plans are resampled in pairs."""
        index = STATISTICS.index(statistic)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(self.point[index] / base.point[index])
            draws = self.draws[:, index] / base.draws[:, index]
        return _estimate(value, draws, min(self.n, base.n), f"ratio, both sides: {self.method}")


def latency(repeats: Sequence[FloatArray], resamples: int = RESAMPLES, seed: int = 0) -> Latency | None:
    """The statistics of all values in `repeats` (one array a repeat, in order of seq; NaN: none) and their resamples.

    None if there is no value at all. Percentiles interpolate linearly between the two nearest values, as numpy does.
    """
    repeats = [values for values in repeats if values.size]
    values = np.concatenate([np.empty(0), *repeats])
    n = int(np.count_nonzero(~np.isnan(values)))
    if n == 0:
        return None
    random = np.random.default_rng(seed)
    portion = max(1, _VALUES_AT_ONCE // len(values))
    portions = [min(portion, resamples - done) for done in range(0, resamples, portion)]
    draws = np.concatenate([_statistics(_draw(repeats, rows, random)) for rows in portions])
    within = f"circular blocks of {math.isqrt(len(repeats[0]))} consecutive requests"
    of = f"{len(repeats)} repeats and, within each, {within}" if len(repeats) > 1 else f"{within} (one repeat)"
    return Latency(_statistics(values[None, :])[0], draws, n, f"95 % bootstrap, {resamples} resamples of {of}")


def _draw(repeats: Sequence[FloatArray], rows: int, random: np.random.Generator) -> FloatArray:
    """`rows` resamples, shape [rows, repeats x longest repeat]; NaN fills up where a shorter repeat was drawn."""
    lengths = np.array([len(values) for values in repeats])
    longest = int(lengths.max())
    padded = np.full((len(repeats), longest), np.nan)
    for row, values in zip(padded, repeats, strict=True):
        row[: len(values)] = values
    step, slots = np.arange(longest), []
    for which in random.integers(len(repeats), size=(len(repeats), rows)):
        length = lengths[which][:, None]
        block = np.sqrt(length).astype(np.int64)
        starts = np.take_along_axis(random.random((rows, longest)), step // block, axis=1)
        positions = ((starts * length).astype(np.int64) + step % block) % length
        slots.append(np.where(step < length, padded[which[:, None], positions], np.nan))
    return np.concatenate(slots, axis=1)


def _statistics(values: FloatArray) -> FloatArray:
    """p50, mean and p99 of each row of `values` (shape [rows, n]), NaN left out: shape [rows, 3]."""
    ordered = np.sort(values, axis=1)  # NaN sorts last
    n = np.count_nonzero(~np.isnan(ordered), axis=1)
    with np.errstate(invalid="ignore"):
        mean = np.nansum(ordered, axis=1) / n
    return np.stack([_percentile(ordered, n, 0.50), mean, _percentile(ordered, n, 0.99)], axis=1)


def _percentile(ordered: FloatArray, n: IntArray, share: float) -> FloatArray:
    at = share * np.maximum(n - 1, 0)
    below = np.floor(at).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(n - 1, 0))
    rows = np.arange(len(ordered))
    low: FloatArray = ordered[rows, below]
    high: FloatArray = ordered[rows, above]
    return low + (high - low) * (at - below)


def _estimate(value: float, draws: FloatArray, n: int, method: str) -> Estimate:
    present = draws[np.isfinite(draws)]
    if n < 2 or present.size == 0:
        return Estimate(value, None, None, n, method)
    low, high = np.percentile(present, _INTERVAL_PERCENT)
    return Estimate(value, float(low), float(high), n, method)
