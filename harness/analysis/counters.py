"""Counters sampled now and then, as what they gained in given windows; gaps and resets are seen, not filled."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
_GAP = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Gained:
    """What a counter gained in each window, NaN where that is not known; when it went back to nothing (ns)."""

    per_window: FloatArray
    resets_ns: tuple[int, ...]


def gained(t_ns: Sequence[int], values: Sequence[float], edges_ns: Sequence[int]) -> Gained:
    """The gain of a counter within each window between two `edges_ns`, from samples in order of time.

    Between two samples it is taken to grow evenly. A window that is not covered by samples, that holds part of a gap
    (samples over three times as far apart as they usually are), or part of a reset (a value below the one before: the
    server started anew) is NaN.
    """
    edges = np.asarray(edges_ns, dtype=np.float64)
    windows = max(0, len(edges) - 1)
    if len(t_ns) < 2:
        return Gained(np.full(windows, np.nan), ())
    times, counts = np.asarray(t_ns, dtype=np.float64), np.asarray(values, dtype=np.float64)
    apart, steps = np.diff(times), np.diff(counts)
    resets = steps < 0
    unknown = resets | (apart > _GAP * np.median(apart))
    grown = np.concatenate([[0.0], np.cumsum(np.where(unknown, 0.0, steps))])
    result = np.diff(np.interp(edges, times, grown))
    starts, ends = edges[:-1], edges[1:]
    result[(starts < times[0]) | (ends > times[-1])] = np.nan
    for at in np.flatnonzero(unknown):
        result[(starts < times[at + 1]) & (ends > times[at])] = np.nan
    return Gained(result, tuple(int(times[at + 1]) for at in np.flatnonzero(resets)))


def last_in_window(t_ns: Sequence[int], values: Sequence[float], edges_ns: Sequence[int]) -> FloatArray:
    """The last value of a gauge sampled within each window; NaN where it was not sampled."""
    edges = np.asarray(edges_ns, dtype=np.float64)
    result = np.full(max(0, len(edges) - 1), np.nan)
    if len(t_ns):
        places = np.searchsorted(np.asarray(t_ns, dtype=np.float64), edges[1:], side="left") - 1
        known = places >= 0
        known[known] &= np.asarray(t_ns, dtype=np.float64)[places[known]] >= edges[:-1][known]
        result[known] = np.asarray(values, dtype=np.float64)[places[known]]
    return result


def mean_in_window(times_ns: Sequence[int], levels: Sequence[float], edges_ns: Sequence[int]) -> FloatArray:
    """The mean over time, within each window, of a level that holds from each of `times_ns` to the next; 0 before."""
    edges = np.asarray(edges_ns, dtype=np.float64)
    if not len(times_ns):
        return np.zeros(max(0, len(edges) - 1))
    times = np.asarray(times_ns, dtype=np.float64)
    steps = np.asarray(levels, dtype=np.float64)
    area = np.concatenate([[0.0], np.cumsum(np.diff(times) * steps[:-1])])
    return np.asarray(np.diff(np.interp(edges, times, area)) / np.maximum(np.diff(edges), 1.0), dtype=np.float64)
