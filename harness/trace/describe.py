"""A trace in numbers: times, lengths, and what its prompts share; one pass over rows that need not be kept."""

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.trace.request import TraceRequest
from harness.trace.reuse import ReuseCounter, usable_hit

ENGINE_BLOCK_TOKENS = 16
CHUNK_TOKENS = 256
_WINDOW_ARRIVALS = 10
_FEWEST_WINDOWS = 10
_MINUTE_US = 60_000_000.0

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of one column: quantiles by definition 7 of Hyndman and Fan (numpy's default), mean and sum."""

    p10: float
    p50: float
    p90: float
    p99: float
    max: int
    mean: float
    total: int


@dataclass(frozen=True, slots=True)
class Times:
    """When requests arrive. None where a figure does not exist: no rate of one row, no gap CV of fewer than three.

    `rate_per_s` is (n - 1) / span. `gap_cv` is the standard deviation (n - 1 in the denominator) of the gaps over
    their mean: 0 for equal gaps, 1 for a Poisson process. `dispersion` is the variance of the arrivals in windows of
    `dispersion_window_s` over their mean (Poisson: 1), a window being about ten arrivals and a whole number of steps;
    `dispersion_per_minute` is the same in windows of 60 s. Only whole windows count, from half a step before the first
    arrival; ten at least. `step_s` is the usual smallest step between different times: the median of those below twice
    the least. `rows_sharing_a_time` counts rows with another at their time, `most_at_one_time` those of the fullest
    time.
    """

    span_s: float
    rate_per_s: float | None
    gap_cv: float | None
    longest_gap_s: float | None
    dispersion: float | None
    dispersion_window_s: float | None
    dispersion_per_minute: float | None
    step_s: float | None
    rows_sharing_a_time: int
    most_at_one_time: int


@dataclass(frozen=True, slots=True)
class Sharing:
    """What an infinite cache would hit, each a share from 0 to 1; None where the trace has no block ids.

    A prompt hits its leading blocks that earlier rows began with too, a last block in part included. `by_tokens`: hit
    tokens over all input tokens. `by_blocks`: hit blocks over all blocks. `in_engine_blocks` and `in_chunks`: hit
    tokens over all input tokens again, when hits are whole blocks of 16 or whole chunks of 256 and the last token of a
    prompt is computed. `reuse_distance_tokens`: of the hit tokens, how large a least-recently-used cache must be to
    have them still, in tokens; quantiles are weighted by tokens, and are the least distance that covers that share.
    """

    by_tokens: float | None
    by_blocks: float | None
    in_engine_blocks: float | None
    in_chunks: float | None
    reuse_distance_tokens: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class Description:
    """All of it. `longest_request_tokens` is the largest input + output; `rows_without_ids` share nothing known."""

    rows: int
    times: Times
    input_tokens: Quantiles
    output_tokens: Quantiles
    longest_request_tokens: int
    block_size: int
    blocks: int
    different_blocks: int
    rows_without_ids: int
    sharing: Sharing
    sessions: int
    rows_in_sessions: int
    turns_that_wait: int


def describe(rows: Iterable[TraceRequest], block_size: int) -> Description:
    """The description of rows that come in order of arrival. Raises ValueError if there are none, or out of order."""
    columns = _Columns(block_size)
    for request in rows:
        columns.add(request)
    if not columns.arrivals_us:
        raise ValueError("no rows to describe")
    inputs, outputs = _ints(columns.inputs), _ints(columns.outputs)
    return Description(
        rows=len(inputs),
        times=describe_times(_ints(columns.arrivals_us)),
        input_tokens=_quantiles(inputs),
        output_tokens=_quantiles(outputs),
        longest_request_tokens=int((inputs + outputs).max()),
        block_size=block_size,
        blocks=columns.blocks,
        different_blocks=columns.reuse.different_blocks,
        rows_without_ids=columns.rows_without_ids,
        sharing=columns.sharing(),
        sessions=len(columns.sessions),
        rows_in_sessions=columns.rows_in_sessions,
        turns_that_wait=columns.turns_that_wait,
    )


class _Columns:
    """What is kept of the rows: three numbers each, and one entry per part of a prompt that an earlier row had."""

    def __init__(self, block_size: int) -> None:
        self.reuse = ReuseCounter(block_size)
        self.arrivals_us, self.inputs, self.outputs = array("q"), array("q"), array("q")
        self.distances, self.weights = array("q"), array("q")
        self.sessions: set[str] = set()
        self.blocks = self.hit_blocks = self.hit_tokens = self.hit_in_blocks = self.hit_in_chunks = 0
        self.rows_without_ids = self.rows_in_sessions = self.turns_that_wait = 0

    def add(self, request: TraceRequest) -> None:
        if self.arrivals_us and request.arrival_us < self.arrivals_us[-1]:
            raise ValueError(f"row {request.row} arrives before the one ahead of it")
        self.arrivals_us.append(request.arrival_us)
        self.inputs.append(request.input_tokens)
        self.outputs.append(request.output_tokens)
        found = self.reuse.add(request)
        self.blocks += len(request.blocks)
        self.hit_blocks += found.blocks
        self.hit_tokens += found.tokens
        self.hit_in_blocks += usable_hit(found.tokens, request.input_tokens, ENGINE_BLOCK_TOKENS)
        self.hit_in_chunks += usable_hit(found.tokens, request.input_tokens, CHUNK_TOKENS)
        for distance, tokens in found.distances:
            self.distances.append(distance)
            self.weights.append(tokens)
        self.rows_without_ids += not request.blocks
        if request.session:
            self.sessions.add(request.session)
            self.rows_in_sessions += 1
        self.turns_that_wait += request.delay_us is not None

    def sharing(self) -> Sharing:
        if not self.blocks:
            return Sharing(None, None, None, None, None)
        total = sum(self.inputs)
        return Sharing(
            by_tokens=self.hit_tokens / total,
            by_blocks=self.hit_blocks / self.blocks,
            in_engine_blocks=self.hit_in_blocks / total,
            in_chunks=self.hit_in_chunks / total,
            reuse_distance_tokens=_covering(_ints(self.distances), _ints(self.weights)),
        )


def describe_times(arrivals_us: _Ints) -> Times:
    """The times of arrivals in ascending order, shape [rows], microseconds; at least one."""
    gaps = np.diff(arrivals_us)
    span_us = int(arrivals_us[-1] - arrivals_us[0])
    steps = gaps[gaps > 0]
    counts = np.diff(np.flatnonzero(np.concatenate(([True], gaps > 0, [True]))))
    step_us = float(np.median(steps[steps < 2 * steps.min()])) if len(steps) else None
    window_us = None if step_us is None else step_us * max(1, round(_WINDOW_ARRIVALS * span_us / len(gaps) / step_us))
    dispersion = _dispersion(arrivals_us, window_us, step_us)
    return Times(
        span_s=span_us / 1e6,
        rate_per_s=len(gaps) / (span_us / 1e6) if span_us else None,
        gap_cv=float(gaps.std(ddof=1) / gaps.mean()) if len(gaps) > 1 and span_us else None,
        longest_gap_s=float(gaps.max()) / 1e6 if len(gaps) else None,
        dispersion=dispersion,
        dispersion_window_s=None if window_us is None or dispersion is None else window_us / 1e6,
        dispersion_per_minute=_dispersion(arrivals_us, _MINUTE_US, step_us),
        step_s=None if step_us is None else step_us / 1e6,
        rows_sharing_a_time=int(counts[counts > 1].sum()),
        most_at_one_time=int(counts.max()),
    )


def _dispersion(arrivals_us: _Ints, window_us: float | None, step_us: float | None) -> float | None:
    if window_us is None or step_us is None:
        return None
    since_us = arrivals_us - arrivals_us[0]
    whole = int(since_us[-1] // window_us)
    if whole < _FEWEST_WINDOWS:
        return None
    windows = ((since_us + step_us / 2) // window_us).astype(np.int64)
    counts = np.bincount(windows[windows < whole], minlength=whole)
    return float(counts.var(ddof=1) / counts.mean())


def _quantiles(values: _Ints) -> Quantiles:
    p10, p50, p90, p99 = (float(value) for value in np.quantile(values, (0.1, 0.5, 0.9, 0.99)))
    return Quantiles(p10, p50, p90, p99, int(values.max()), float(values.mean()), int(values.sum()))


def _covering(distances: _Ints, weights: _Ints) -> dict[str, int] | None:
    """By name of the quantile: the least distance that covers that share of the weights. None if there are none."""
    if not len(distances):
        return None
    order = np.argsort(distances, kind="stable")
    covered = np.cumsum(weights[order])
    shares = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    places = {
        name: int(np.searchsorted(covered, math.ceil(share * int(covered[-1])))) for name, share in shares.items()
    }
    return {name: int(distances[order[place]]) for name, place in places.items()}


def _ints(column: "array[int]") -> _Ints:
    return np.frombuffer(column, dtype=np.int64) if len(column) else np.zeros(0, np.int64)
