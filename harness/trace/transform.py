"""Traces out of traces: fewer rows, other lengths, another rate. Pure; what is shared stays shared."""

import math
from dataclasses import replace
from fractions import Fraction

from harness.errors import TraceError
from harness.trace.request import Trace, TraceRequest


def limit(trace: Trace, n: int) -> Trace:
    """The first `n` requests to arrive, or all if there are fewer. Raises TraceError if `n` is below 1."""
    if n < 1:
        raise TraceError(f"limit is {n}", where=trace.source, remedy="keep at least one request")
    return replace(trace, requests=trace.requests[:n])


def window(trace: Trace, span_us: int) -> Trace:
    """The requests that arrive within `span_us` of the first one, itself included. Raises TraceError below 0."""
    if span_us < 0:
        raise TraceError(f"window is {span_us} us", where=trace.source, remedy="give a time of zero or above")
    end_us = trace.requests[0].arrival_us + span_us
    return replace(trace, requests=tuple(one for one in trace.requests if one.arrival_us <= end_us))


def rate(trace: Trace) -> float:
    """Mean arrival rate in requests a second: (n - 1) / (last arrival - first arrival), n - 1 being the gaps seen.

    Raises TraceError for a trace whose requests all arrive at once: it has no rate.
    """
    return float((len(trace.requests) - 1) * 1_000_000 / _span_us(trace))


def with_rate(trace: Trace, requests_per_s: float) -> Trace:
    """The trace with every gap stretched by one factor, so that `rate` is `requests_per_s` (to the microsecond).

    A trace of one request is returned as it is. Raises TraceError for a rate that is not finite and above zero, and for
    a trace whose requests all arrive at once.
    """
    if not (math.isfinite(requests_per_s) and requests_per_s > 0):
        raise TraceError(f"rate is {requests_per_s}", where=trace.source, remedy="give requests a second, above zero")
    if len(trace.requests) == 1:
        return trace
    wanted_us = (len(trace.requests) - 1) * 1_000_000 / Fraction(requests_per_s)
    factor = wanted_us / _span_us(trace)
    first = trace.requests[0].arrival_us
    return replace(
        trace,
        requests=tuple(
            replace(request, arrival_us=_half_up((request.arrival_us - first) * factor)) for request in trace.requests
        ),
    )


def scale_lengths(trace: Trace, ratio: Fraction) -> Trace:
    """The trace with every length times `ratio`.

    Whole blocks scale exactly, so prompts share the same part of themselves as before; the tail behind the last whole
    block and the output are rounded half up, to at least one token. Raises TraceError, with the nearest ratios that
    work, unless `block_size` times `ratio` is a whole number.
    """
    scaled = trace.block_size * ratio
    if ratio <= 0 or scaled.denominator != 1:
        near = sorted({max(1, math.floor(scaled)), max(1, math.ceil(scaled))})
        raise TraceError(
            f"length_scale {ratio} makes a block of {trace.block_size} tokens {float(scaled):g} tokens long",
            where=trace.source,
            remedy=f"use {' or '.join(f'{size}/{trace.block_size}' for size in near)}",
        )
    return replace(
        trace,
        block_size=int(scaled),
        requests=tuple(_scaled(request, trace.block_size, ratio) for request in trace.requests),
    )


def _scaled(request: TraceRequest, block_size: int, ratio: Fraction) -> TraceRequest:
    whole, tail = divmod(request.input_tokens, block_size)
    return replace(
        request,
        input_tokens=int(whole * block_size * ratio) + (max(1, _half_up(tail * ratio)) if tail else 0),
        output_tokens=max(1, _half_up(request.output_tokens * ratio)),
    )


def _span_us(trace: Trace) -> int:
    span_us = trace.requests[-1].arrival_us - trace.requests[0].arrival_us
    if span_us == 0:
        raise TraceError("all requests arrive at once: no rate", where=trace.source, remedy="use `rate: recorded`")
    return span_us


def _half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))
