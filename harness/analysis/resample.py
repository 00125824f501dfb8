"""How sure a percentile is: by repeats where there are several, else by a bootstrap that keeps neighbours together.

Requests of one run are not independent (they share a queue), so with one repeat they are drawn in circular blocks of
consecutive ones (Politis and Romano, 1992), 2 floor(sqrt(n)) long, or shorter where that would make fewer than eight:
longer than the customary n^(1/3), since a queue remembers for long. Equal seeds draw equal positions, so two arms that
replayed the same plan are resampled in pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.finding import Estimate
from harness.analysis.interval import PERCENT, of_draws, of_repeats
from harness.analysis.measured import FloatArray

IntArray = npt.NDArray[np.int64]

STATISTICS = ("p50", "mean", "p99")
RESAMPLES = 1000
_SHARES = (0.50, 0.99)
_MANY_VALUES = 4_000
"""Above this many values resamples become fewer, so that their number times the values stays the same..."""
_FEWEST_RESAMPLES = 200
_FEWEST_BLOCKS = 8  # with fewer, Student's factor says more than the data
_VALUES_AT_ONCE = 1_000_000  # resamples are drawn in portions of about that size, 8 MB an array


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """p50, mean and p99 of a group: of all values (`point`, shape [3]), of each resample, or of each repeat (`draws`).

    `draws` has shape [resamples, 3] where there was one repeat, of `blocks` blocks; else shape [repeats, 3], and
    `blocks` is 0.
    """

    point: FloatArray
    draws: FloatArray
    blocks: int
    n: int
    method: str

    def estimate(self, statistic: str, percent: float = PERCENT, *, positive: bool = True) -> Estimate:
        """The statistic (one of STATISTICS) with its interval; `positive` unless values of either sign are meant."""
        index = STATISTICS.index(statistic)
        point, draws = float(self.point[index]), self.draws[:, index]
        return self._estimate(point, draws, self.blocks, self.n, "", percent, positive=positive)

    def ratio(self, base: "Latency", statistic: str, percent: float = PERCENT) -> Estimate:
        """The statistic divided by that of `base`, with its interval; equal plans are resampled in pairs."""
        index = STATISTICS.index(statistic)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(self.point[index] / base.point[index])
            draws = self._paired(base, index, np.divide)
        blocks, n = min(self.blocks, base.blocks), min(self.n, base.n)
        return self._estimate(value, draws, blocks, n, "ratio, both sides: ", percent)

    def difference(self, base: "Latency", statistic: str, percent: float = PERCENT) -> Estimate:
        """The statistic less that of `base`, with its interval; equal plans are resampled in pairs."""
        index = STATISTICS.index(statistic)
        value, draws = float(self.point[index] - base.point[index]), self._paired(base, index, np.subtract)
        blocks, n = min(self.blocks, base.blocks), min(self.n, base.n)
        return self._estimate(value, draws, blocks, n, "difference, both sides: ", percent, positive=False)

    def _paired(self, base: "Latency", index: int, operation: np.ufunc) -> FloatArray:
        """Draw by draw; nothing where one side has repeats and the other has not, or not as many."""
        if (self.blocks > 0) != (base.blocks > 0) or len(self.draws) != len(base.draws):
            return np.empty(0)
        paired: FloatArray = operation(self.draws[:, index], base.draws[:, index])
        return paired

    def _estimate(
        self,
        value: float,
        draws: FloatArray,
        blocks: int,
        n: int,
        prefix: str,
        percent: float,
        *,
        positive: bool = True,
    ) -> Estimate:
        if n < 2:
            low, high = None, None
        elif self.blocks:
            low, high = of_draws(value, draws, blocks, positive=positive, percent=percent)
        else:
            low, high = of_repeats(value, draws, positive=positive, percent=percent)
        return Estimate(value, low, high, n, f"{prefix}{self.method}")


def latency(repeats: Sequence[FloatArray], resamples: int = RESAMPLES, seed: int = 0) -> Latency | None:
    """The statistics of all values in `repeats` (one array a repeat, in order of seq; NaN: none) and how sure they are.

    None if there is no value at all. Percentiles interpolate linearly between the two nearest values, as numpy does.
    """
    repeats = [values for values in repeats if values.size]
    values = np.concatenate([np.empty(0), *repeats])
    n = int(np.count_nonzero(~np.isnan(values)))
    if n == 0:
        return None
    if len(repeats) > 1:
        method = f"95 % interval by Student's t over {len(repeats)} repeats"
        return Latency(statistics_of(values), np.stack([statistics_of(one) for one in repeats]), 0, n, method)
    if len(values) > _MANY_VALUES:
        resamples = min(resamples, max(_FEWEST_RESAMPLES, resamples * _MANY_VALUES // len(values)))
    block = max(1, min(2 * math.isqrt(len(values)), len(values) // _FEWEST_BLOCKS))
    method = f"95 % bootstrap, {resamples} resamples of circular blocks of {block} consecutive requests (one repeat)"
    draws = _draws(values, block, resamples, np.random.default_rng(seed))
    return Latency(statistics_of(values), draws, len(values) // block, n, method)


def statistics_of(values: FloatArray) -> FloatArray:
    """p50, mean and p99 of `values`, NaN left out: shape [3]; NaN of nothing."""
    present = values[~np.isnan(values)]
    if not present.size:
        return np.full(len(STATISTICS), np.nan)
    p50, p99 = np.percentile(present, [100 * share for share in _SHARES])
    return np.array([p50, present.mean(), p99])


def _draws(values: FloatArray, block: int, resamples: int, random: np.random.Generator) -> FloatArray:
    """The statistics of `resamples` resamples, shape [resamples, 3]."""
    n = len(values)
    circle, place = np.concatenate([values, values[:block]]), np.arange(n)
    portion = max(1, _VALUES_AT_ONCE // n)
    found = []
    for done in range(0, resamples, portion):
        starts = (random.random((min(portion, resamples - done), -(-n // block))) * n).astype(np.int64)
        found.append(_statistics(circle[starts[:, place // block] + place % block]))
    return np.concatenate(found)


def _statistics(drawn: FloatArray) -> FloatArray:
    """p50, mean and p99 of each row of `drawn` (shape [rows, n]), NaN left out: shape [rows, 3]."""
    gaps = np.isnan(drawn)
    n = drawn.shape[1] - np.count_nonzero(gaps, axis=1)
    places = [share * np.maximum(n - 1, 0) for share in _SHARES]
    if gaps.any():
        ordered = np.sort(drawn, axis=1)  # NaN sorts last
    else:
        wanted = {int(edge) for place in places for edge in (np.floor(place[0]), np.ceil(place[0]))}
        ordered = np.partition(drawn, sorted(wanted), axis=1)
    rows = np.arange(len(drawn))
    p50, p99 = (_between(ordered, rows, place) for place in places)
    with np.errstate(invalid="ignore"):
        mean = np.nansum(drawn, axis=1) / n
    return np.stack([p50, mean, p99], axis=1)


def _between(ordered: FloatArray, rows: IntArray, place: FloatArray) -> FloatArray:
    """What lies at `place` (not whole) of each row in order."""
    below, above = np.floor(place).astype(np.int64), np.ceil(place).astype(np.int64)
    low: FloatArray = ordered[rows, below]
    return low + (ordered[rows, above] - low) * (place - below)
