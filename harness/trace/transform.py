"""Traces out of traces: fewer rows, other times. Pure; the first row left arrives at 0, and no length changes."""

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise

from harness.errors import TraceError
from harness.trace.draws import uniform
from harness.trace.request import Trace, TraceRequest


def limit(trace: Trace, n: int) -> Trace:
    """The first `n` requests to arrive, or all if there are fewer. Raises TraceError if `n` is below 1."""
    if n < 1:
        raise TraceError(f"limit is {n}", where=trace.source, remedy="keep at least one request")
    return replace(trace, requests=trace.requests[:n])


def window(trace: Trace, span_us: int, start_us: int = 0) -> Trace:
    """The requests from `start_us` to `start_us + span_us` after the first one, both ends included.

    Raises TraceError for a time below 0, and where nothing arrives then.
    """
    for name, value in (("window", span_us), ("the window's start", start_us)):
        if value < 0:
            raise TraceError(f"{name} is {value} us", where=trace.source, remedy="give a time of zero or above")
    begin_us = trace.requests[0].arrival_us + start_us
    return _kept(trace, "window", lambda one: begin_us <= one.arrival_us <= begin_us + span_us)


def keep_sessions(trace: Trace, sessions: int | Collection[str]) -> Trace:
    """The first so many sessions to arrive, or those named, each of them whole.

    A row without a session is one by itself. Raises TraceError for a count below 1, for a name that is not in the
    trace, and where nothing is left.
    """
    if isinstance(sessions, int):
        if sessions < 1:
            raise TraceError(f"keep_sessions is {sessions}", where=trace.source, remedy="keep at least one session")
        names = dict.fromkeys(map(_session, trace.requests))
        first = set(list(names)[:sessions])
        return _kept(trace, "keep_sessions", lambda one: _session(one) in first)
    unknown = set(sessions) - {one.session for one in trace.requests}
    if unknown:
        raise TraceError(
            f"keep_sessions names {min(unknown)!r}", where=trace.source, remedy="name sessions that are in the trace"
        )
    return _kept(trace, "keep_sessions", lambda one: one.session in sessions)


def sample_sessions(trace: Trace, fraction: float, seed: int) -> Trace:
    """Each session, whole, with a chance of `fraction`; a row without a session is one by itself.

    A session's lot depends on its name and the seed alone, so that a larger fraction keeps all that a smaller one kept.
    Raises TraceError for a fraction outside (0, 1], and where nothing is left.
    """
    if not 0 < fraction <= 1:
        raise TraceError(f"sample_sessions is {fraction}", where=trace.source, remedy="give a share above 0, up to 1")
    return _kept(trace, "sample_sessions", lambda one: uniform(seed, f"session {_session(one)}", 0) < fraction)


def cap_gaps(trace: Trace, cap_us: int) -> Trace:
    """The trace with no gap between arrivals, and no delay of a turn, longer than `cap_us`; shorter ones stay.

    Raises TraceError for a cap below 0.
    """
    if cap_us < 0:
        raise TraceError(f"gap_cap is {cap_us} us", where=trace.source, remedy="give a time of zero or above")
    arrivals = [one.arrival_us for one in trace.requests]
    capped = accumulate((min(later - earlier, cap_us) for earlier, later in pairwise(arrivals)), initial=0)
    return replace(
        trace,
        requests=tuple(
            replace(one, arrival_us=us, delay_us=None if one.delay_us is None else min(one.delay_us, cap_us))
            for one, us in zip(trace.requests, capped, strict=True)
        ),
    )


def speedup(trace: Trace, factor: float) -> Trace:
    """The trace so many times as fast: gaps and delays divided by `factor`. Raises TraceError unless above zero."""
    if not (math.isfinite(factor) and factor > 0):
        raise TraceError(
            f"speedup is {factor}", where=trace.source, remedy="give a factor above zero: 2 is twice as fast"
        )
    return _stretched(trace, 1 / Fraction(factor))


def mean_rate(trace: Trace) -> float | None:
    """Requests a second, (n - 1) / (last arrival - first arrival): n - 1 gaps were seen. None if all arrive at once."""
    span_us = trace.requests[-1].arrival_us - trace.requests[0].arrival_us
    return (len(trace.requests) - 1) * 1_000_000 / span_us if span_us else None


def with_rate(trace: Trace, requests_per_s: float) -> Trace:
    """The trace with gaps and delays stretched by one factor, so that `mean_rate` is `requests_per_s` (to the us).

    A trace of one request is returned as it is. Raises TraceError for a rate that is not finite and above zero, and for
    a trace whose requests all arrive at once.
    """
    if not (math.isfinite(requests_per_s) and requests_per_s > 0):
        raise TraceError(f"rate is {requests_per_s}", where=trace.source, remedy="give requests a second, above zero")
    if len(trace.requests) == 1:
        return trace
    span_us = trace.requests[-1].arrival_us - trace.requests[0].arrival_us
    if span_us == 0:
        raise TraceError("all requests arrive at once: no rate", where=trace.source, remedy="use `rate: recorded`")
    return _stretched(trace, (len(trace.requests) - 1) * 1_000_000 / Fraction(requests_per_s) / span_us)


def jitter(trace: Trace, step_us: int, seed: int) -> Trace:
    """The trace with each arrival moved later by up to `step_us`, evenly drawn: for times recorded in such steps.

    Rows of one time keep their order. Raises TraceError for a step below 0.
    """
    if step_us < 0:
        raise TraceError(f"jitter is {step_us} us", where=trace.source, remedy="give a time of zero or above")
    moved = [one.arrival_us + int(uniform(seed, "jitter", one.row) * step_us) for one in trace.requests]
    by_time: dict[int, list[int]] = {}
    for one, us in zip(trace.requests, moved, strict=True):
        by_time.setdefault(one.arrival_us, []).append(us)
    waiting = {us: iter(sorted(later)) for us, later in by_time.items()}
    requests = [replace(one, arrival_us=next(waiting[one.arrival_us])) for one in trace.requests]
    return _rebased(trace, sorted(requests, key=lambda one: one.arrival_us))


def _session(request: TraceRequest) -> str | int:
    return request.session or request.row


def _kept(trace: Trace, name: str, keep: Callable[[TraceRequest], bool]) -> Trace:
    requests = [one for one in trace.requests if keep(one)]
    if not requests:
        raise TraceError(
            f"{name} leaves none of {len(trace.requests)} requests", where=trace.source, remedy=f"widen {name}"
        )
    return _rebased(trace, requests)


def _rebased(trace: Trace, requests: list[TraceRequest]) -> Trace:
    first = requests[0].arrival_us
    return replace(trace, requests=tuple(replace(one, arrival_us=one.arrival_us - first) for one in requests))


def _stretched(trace: Trace, factor: Fraction) -> Trace:
    first = trace.requests[0].arrival_us
    return replace(
        trace,
        requests=tuple(
            replace(
                one,
                arrival_us=_half_up((one.arrival_us - first) * factor),
                delay_us=None if one.delay_us is None else _half_up(one.delay_us * factor),
            )
            for one in trace.requests
        ),
    )


def _half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))
