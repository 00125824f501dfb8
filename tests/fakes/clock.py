"""Virtual time: an event loop whose clock jumps to the next timer as soon as nothing else can happen."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

UNIX_AT_START_NS = 1_700_000_000_000_000_000


class FakeClock:
    """A clock that reads the virtual time of the loop it runs in, exact to the nanosecond."""

    def __init__(self) -> None:
        self.t_ns = 0

    def now_ns(self) -> int:
        """Virtual nanoseconds since the loop began."""
        return self.t_ns

    def unix_ns(self) -> int:
        """A fixed date plus the virtual time."""
        return UNIX_AT_START_NS + self.t_ns

    async def sleep_until(self, due_ns: int) -> None:
        """Wait for `due_ns` exactly."""
        if due_ns > self.t_ns:
            await asyncio.sleep((due_ns - self.t_ns) / 1e9)


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("virtual time stands still: every task waits for something that cannot happen")
            self._clock.t_ns += round(timeout * 1e9)
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__(_JumpingSelector(clock))
        self._virtual = clock

    def time(self) -> float:
        return self._virtual.t_ns / 1e9


def run_virtual(main: Callable[[FakeClock], Coroutine[Any, Any, T]]) -> T:
    """asyncio.run(main(clock)) in virtual time that starts at 0."""
    clock = FakeClock()
    with asyncio.Runner(loop_factory=lambda: _VirtualLoop(clock)) as runner:
        return runner.run(main(clock))
