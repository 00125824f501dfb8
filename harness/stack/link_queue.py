"""What is on a link, and when it comes out: a rate that flows share in turn, then a delay. Pure: times are given."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from harness.stack.token_bucket import TokenBucket

Flow = TypeVar("Flow", bound=Hashable)
Piece = bytes | memoryview


class LinkQueue(Generic[Flow]):
    """One direction of a link. Flows that wait take turns, a piece each; within a flow pieces keep their order.

    What comes out when depends on the offers alone, never on how late or how often it is asked; only whose turn it is
    stays decided for offers dated before the last `come_out`.
    """

    def __init__(self, bytes_per_s: float, latency_s: float) -> None:
        self._bucket = TokenBucket(bytes_per_s)
        self._latency_s = latency_s
        self._waiting: dict[Flow, deque[tuple[float, Piece]]] = {}  # in the order of their turns
        self._passed: deque[tuple[float, Flow, Piece]] = deque()  # in the order in which they come out

    def offer(self, flow: Flow, piece: Piece, now: float) -> None:
        """Put a piece on the link. An empty one takes no rate, and comes out after all of its flow before it."""
        self._waiting.setdefault(flow, deque()).append((now, piece))

    def forget(self, flow: Flow) -> None:
        """Take back what of `flow` has not begun to pass."""
        self._waiting.pop(flow, None)

    def come_out(self, now: float) -> list[tuple[Flow, Piece]]:
        """The pieces whose moment is `now` or before, in order; each is given once."""
        self._pass_until(now)
        out = []
        while self._passed and self._passed[0][0] <= now:
            _, flow, piece = self._passed.popleft()
            out.append((flow, piece))
        return out

    def next_at(self) -> float | None:
        """When the next piece comes out, if none is offered; None: nothing is on the link. Asked after `come_out`."""
        return self._passed[0][0] if self._passed else None

    def _pass_until(self, now: float) -> None:
        """Let pieces begin to pass up to `now`: whose turn it is then can no longer change."""
        while self._waiting:
            first_ready = min(pieces[0][0] for pieces in self._waiting.values())
            begins_at = max(self._bucket.free_at, first_ready)
            if begins_at > now:
                return
            flow = next(flow for flow, pieces in self._waiting.items() if pieces[0][0] <= begins_at)
            pieces = self._waiting.pop(flow)
            _, piece = pieces.popleft()
            if pieces:
                self._waiting[flow] = pieces
            passed_at = self._bucket.take(len(piece), begins_at)
            self._passed.append((passed_at + self._latency_s, flow, piece))
