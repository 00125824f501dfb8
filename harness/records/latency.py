"""Latencies, each derived once from the stamps of a record, and the one definition of a percentile."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.request import RequestRecord

_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class Latencies:
    """Milliseconds; None where one of the two stamps a latency lies between did not happen.

    `ttft_ms`       first token - sent: service latency, what the server did.
    `ttft_due_ms`   first token - due: response latency, what the user felt; includes a late send.
    `tpot_ms`       (last token - first token) / (completion tokens - 1): the first token is excluded, so a single token
                    has none.
    `itl_ms`        gaps between successive events that carried text; () with fewer than two. One event may carry
                    several tokens, so its mean is `tpot_ms` only when every event carries one.
    `e2el_ms`       done - sent.
    `send_lag_ms`   sent - due: how late the client itself was.
    """

    ttft_ms: float | None
    ttft_due_ms: float | None
    tpot_ms: float | None
    itl_ms: tuple[float, ...]
    e2el_ms: float | None
    send_lag_ms: float | None


def latencies(record: RequestRecord) -> Latencies:
    """The latencies of one request, whatever its outcome: a truncated request whose first token came has a TTFT.

    Which outcomes enter a figure is for the reader to choose by `outcome`.
    """
    return Latencies(
        ttft_ms=_between(record.sent_ns, record.first_token_ns),
        ttft_due_ms=_between(record.due_ns, record.first_token_ns),
        tpot_ms=_tpot_ms(record),
        itl_ms=tuple((b - a) / _NS_PER_MS for a, b in zip(record.chunk_ns, record.chunk_ns[1:], strict=False)),
        e2el_ms=_between(record.sent_ns, record.done_ns),
        send_lag_ms=_between(record.due_ns, record.sent_ns),
    )


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The `percent` (0..100) percentile, interpolated linearly between order statistics; None of no values.

    Definition 7 of Hyndman and Fan (1996), numpy's default: position (n - 1) percent / 100 in the sorted values.
    Raises ValueError outside 0..100.
    """
    if not 0 <= percent <= 100:
        raise ValueError(f"percent is {percent}, not within 0..100")
    if not values:
        return None
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    low, high = ordered[below], ordered[math.ceil(position)]
    return low + (high - low) * (position - below)


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None of no values."""
    return math.fsum(values) / len(values) if values else None


def _between(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / _NS_PER_MS


def _tpot_ms(record: RequestRecord) -> float | None:
    span_ms = _between(record.first_token_ns, record.last_token_ns)
    tokens = record.completion_tokens
    return None if span_ms is None or tokens is None or tokens < 2 else span_ms / (tokens - 1)
