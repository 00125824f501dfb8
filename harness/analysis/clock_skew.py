"""How far the clock of a log is from the client's, out of what must have come before what."""

from collections.abc import Iterable
from dataclasses import dataclass

_STAMP_NS = 2_000_000
"""A stamp has milliseconds, and is taken a little after what it tells of."""


@dataclass(frozen=True, slots=True)
class Skew:
    """The log's clock minus the client's, ns: between `low_ns` and `high_ns`, from `n` events."""

    low_ns: int
    high_ns: int
    n: int

    @property
    def ns(self) -> int:
        """What to take off the log's stamps: nothing if the events allow that, else the middle of the bounds."""
        if self.contradictory or self.low_ns <= 0 <= self.high_ns:
            return 0
        return (self.low_ns + self.high_ns) // 2

    @property
    def contradictory(self) -> bool:
        """Whether no one difference fits all events: a clock was set meanwhile, or these are not the same requests."""
        return self.low_ns > self.high_ns


def clock_skew(events: Iterable[tuple[int, int, int, int]]) -> Skew | None:
    """The skew from (begun, ended) of events by the log and (sent, first token) of their requests by the client, ns.

    A lookup begins after its request was sent and ends before the first token. None without an event.
    """
    bounds = [(ended - first_token - _STAMP_NS, begun - sent + _STAMP_NS) for begun, ended, sent, first_token in events]
    if not bounds:
        return None
    return Skew(max(low for low, _ in bounds), min(high for _, high in bounds), len(bounds))
