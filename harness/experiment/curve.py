"""`kvreplay simulate curve`: a trace's hit rate against capacity, for every tier's own granule."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import TraceError
from harness.sim.curve import Curve, Uses, hit_curve, uses_of, working_sets
from harness.trace import ReadOptions, Trace, read_trace
from harness.trace.reuse import PrefixTree
from harness.trace.turns import accumulate

WINDOWS = 10
_SHARES = (0.1, 0.5, 0.9, 0.99, 1.0)
_CLIFF = 0.5


@dataclass(frozen=True, slots=True)
class TierCurve:
    """The curve of the tiers that keep granules of one size, and the working set of each window of the trace."""

    tiers: str
    curve: Curve
    working_set_tokens: Sequence[int]


def curves_of(
    path: Path, form: str | None, options: ReadOptions, granules: Sequence[tuple[str, int]]
) -> list[TierCurve]:
    """The curve of each (tiers, granule in tokens). Raises TraceError for a trace that cannot tell what rows share."""
    trace = _read(path, form, options)
    rows, prefixes = _prefixes(trace)
    windows = _windows(trace)
    found = []
    for tiers, granule in granules:
        uses: Uses = uses_of(rows, prefixes, trace.block_size, granule)
        found.append(TierCurve(tiers, hit_curve(uses), working_sets(uses, windows)))
    return found


def document(path: Path, curves: Sequence[TierCurve], kv_bytes: int | None, points: int) -> dict[str, Any]:
    """Plain values: each curve at `points` capacities (even in the logarithm), exact there, and what it says."""
    return {
        "trace": str(path),
        "kv_bytes_per_token": kv_bytes,
        "curves": [_curve(one, kv_bytes, points) for one in curves],
    }


def cliff(curve: Curve) -> tuple[int, int] | None:
    """The capacities between which nearly all hits appear, if they do so within a factor of two; None if they come
    bit by bit, or never. Below the first a tenth of all hits is had, at the second nine tenths.
    """
    low, high = curve.capacity_for(0.1), curve.capacity_for(0.9)
    return (low, high) if low is not None and high is not None and low >= _CLIFF * high else None


def _curve(one: TierCurve, kv_bytes: int | None, points: int) -> dict[str, Any]:
    curve = one.curve
    most = len(curve.hits) * curve.granule_tokens
    ladder = np.unique(np.geomspace(curve.granule_tokens, most, points).round().astype(np.int64))
    edge = cliff(curve)
    return {
        "tiers": one.tiers,
        "granule_tokens": curve.granule_tokens,
        "prompt_tokens": curve.tokens,
        "different_tokens": curve.different * curve.granule_tokens,
        "best_hit_rate": curve.best,
        "capacity_tokens_for_share": {f"{share:g}": curve.capacity_for(share) for share in _SHARES},
        "cliff_tokens": None if edge is None else list(edge),
        "working_set_tokens": list(one.working_set_tokens),
        "points": [_point(int(tokens), curve, kv_bytes) for tokens in ladder],
    }


def _point(tokens: int, curve: Curve, kv_bytes: int | None) -> dict[str, float | int | None]:
    size = None if kv_bytes is None else tokens * kv_bytes
    return {"capacity_tokens": tokens, "capacity_bytes": size, "hit_rate": curve.hit_rate(tokens)}


def _read(path: Path, form: str | None, options: ReadOptions) -> Trace:
    trace = read_trace(path, form, options)
    if not any(request.blocks for request in trace.requests):
        raise TraceError(
            "no row says what it shares: there is no curve without block ids",
            where=str(path),
            remedy="give a trace with hash_ids, or convert one from text with a tokenizer",
        )
    if trace.report is not None and trace.report.turn_lengths == "delta":
        return Trace(
            tuple(accumulate(trace.requests, trace.block_size)), trace.block_size, trace.source, trace.provenance
        )
    return trace


def _prefixes(trace: Trace) -> tuple[list[tuple[list[int], int]], int]:
    """Rows as (numbers of their prefixes, prompt tokens), and how many prefixes there are."""
    tree = PrefixTree()
    rows = [(tree.walk(request.blocks), request.input_tokens) for request in trace.requests]
    return rows, 1 + max((max(prefixes, default=-1) for prefixes, _ in rows), default=-1)


def _windows(trace: Trace) -> list[int]:
    """The first row of each of ten equal spans of time, and the end."""
    times = np.array([request.arrival_us for request in trace.requests])
    edges = np.linspace(times[0], times[-1], WINDOWS + 1)[1:-1]
    return [0, *(int(row) for row in np.searchsorted(times, edges)), len(times)]
