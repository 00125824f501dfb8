"""The one clock: integer nanoseconds of a monotonic counter, and the wall clock read beside it once a run."""

import asyncio
import time
from typing import Protocol

_COARSE_MARGIN_NS = 1_500_000
"""Event loops round timers to whole milliseconds, so the coarse sleep ends this much early and yields do the rest."""


class Clock(Protocol):
    """What the client knows of time. All times of one run come from one clock."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds; only differences and order mean anything."""
        ...

    def unix_ns(self) -> int:
        """Wall clock, nanoseconds since 1970, to align a run with the servers' logs."""
        ...

    async def sleep_until(self, due_ns: int) -> None:
        """Return once `now_ns()` is at least `due_ns`; at once, without yielding, if it already is."""
        ...


class MonotonicClock:
    """This machine's clocks: `time.perf_counter_ns` and `time.time_ns`."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds."""
        return time.perf_counter_ns()

    def unix_ns(self) -> int:
        """Nanoseconds since 1970."""
        return time.time_ns()

    async def sleep_until(self, due_ns: int) -> None:
        """Sleep until shortly before `due_ns`, then yield to the event loop until it is reached."""
        while (left_ns := due_ns - time.perf_counter_ns()) > 0:
            coarse_ns = max(0, left_ns - _COARSE_MARGIN_NS)
            await asyncio.sleep(coarse_ns / 1e9)
