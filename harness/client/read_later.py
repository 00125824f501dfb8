"""Responses are read when nothing is due: parsing one must not delay the next send, or the stamp of another's bytes."""

import asyncio
from collections import deque
from collections.abc import Callable

from harness.client.clock import Clock
from harness.client.request import Ended
from harness.records import Cell, RequestRecord

_QUIET_NS = 1_000_000
"""Time to the next send that is enough to read a response in."""

_BACKLOG = 2_000
"""Responses that may wait; beyond that, one is read in every turn of the event loop, due sends or not."""


class ReadLater:
    """A queue of requests that are over, read one at a time into `records` (by seq), in order of their ends.

    `next_due_ns` is when the next request is due, as far as its sender knows; None when nothing is.
    """

    def __init__(self, cell: Cell, clock: Clock, watch: Callable[[RequestRecord], None] | None) -> None:
        self.records: dict[int, RequestRecord] = {}
        self.next_due_ns: int | None = None
        self._cell, self._clock, self._watch = cell, clock, watch
        self._queue: deque[Ended] = deque()
        self._some = asyncio.Event()

    def add(self, ended: Ended) -> None:
        """Take one; costs next to nothing now."""
        self._queue.append(ended)
        self._some.set()

    async def forever(self) -> None:
        """Read in quiet moments, yielding to the event loop after each."""
        while True:
            await self._some.wait()
            await self._quiet()
            self._read_one()
            await asyncio.sleep(0)

    def rest(self) -> None:
        """Read all that waits."""
        while self._queue:
            self._read_one()

    async def _quiet(self) -> None:
        while len(self._queue) < _BACKLOG and self.next_due_ns is not None:
            left_ns = self.next_due_ns - self._clock.now_ns()
            if left_ns > _QUIET_NS:
                return
            await asyncio.sleep(max(left_ns, _QUIET_NS) / 1e9)

    def _read_one(self) -> None:
        if not self._queue:
            return
        record = self._queue.popleft().record(self._cell)
        if not self._queue:
            self._some.clear()
        self.records[record.seq] = record
        if self._watch is not None:
            self._watch(record)
