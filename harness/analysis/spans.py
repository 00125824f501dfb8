"""Spans of time, as (start, end) in ns: how many run at once, each one's part of what they share, what overlaps."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Span = tuple[int, int]


def shares_ns(spans: Sequence[Span]) -> list[float]:
    """What each span had of something that all of them share: every instant is divided equally among those that run.

    So the shares add up to the time in which any of them ran, and one that runs alone has all of its own.
    """
    times, running = in_flight(spans)
    if not times.size:
        return [0.0] * len(spans)
    with np.errstate(divide="ignore"):
        each = np.where(running[:-1] > 0, np.diff(times) / np.maximum(running[:-1], 1), 0.0)
    so_far = np.concatenate([[0.0], np.cumsum(each)])
    starts = np.searchsorted(times, [start for start, _ in spans])
    ends = np.searchsorted(times, [end for _, end in spans])
    return [float(so_far[end] - so_far[start]) for start, end in zip(starts, ends, strict=True)]


def in_flight(spans: Sequence[Span]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The instants (ns) at which the number of running spans changes, and that number from each of them on."""
    edges = np.array([t for span in spans for t in span], dtype=np.int64)
    steps = np.array([step for _ in spans for step in (1, -1)], dtype=np.int64)
    times, places = np.unique(edges, return_inverse=True)
    changes = np.zeros(len(times), dtype=np.int64)
    np.add.at(changes, places, steps)
    return times, np.cumsum(changes)


def covered_ns(span: Span, others: Sequence[Span]) -> int:
    """How much of `span` the others cover; an instant that several of them cover counts once."""
    covered, upto = 0, span[0]
    for start, end in sorted(others):
        first, last = max(start, upto), min(end, span[1])
        if first < last:
            covered, upto = covered + last - first, last
    return covered


def alone(spans: Sequence[Span]) -> list[bool]:
    """Which of the spans no other one overlaps."""
    order = sorted(range(len(spans)), key=lambda at: spans[at])
    result = [True] * len(spans)
    latest = -1
    for at in order:
        if latest >= 0 and spans[at][0] < spans[latest][1]:
            result[at] = result[latest] = False
        if latest < 0 or spans[at][1] > spans[latest][1]:
            latest = at
    return result
