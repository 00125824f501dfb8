"""Ending early, once and for one reason: an interrupt, or a service that died."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class InterruptedRun(Exception):  # noqa: N818 - not an error: the user asked for it
    """Ctrl-C, SIGTERM or a closed terminal: what was measured is saved, everything started is stopped."""


@contextlib.contextmanager
def interruptible(interrupt: Callable[[], object]) -> Iterator[None]:
    """While this is open, those signals call `interrupt`, each time; then they do again what they did before.

    A closed terminal that is ignored stays so (nohup). SIGINT does not: a shell's background jobs begin with it
    ignored, and `kill -INT` is meant for them.
    """
    loop = asyncio.get_running_loop()
    hangup = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    numbers = (signal.SIGINT, signal.SIGTERM, *hangup)
    for number in numbers:
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class Halt:
    """Trips at most once; `event` is then set and `check` raises the cause.

    `at_once` is set too where requests in flight are to end, and not only no more to be sent.
    """

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.at_once = asyncio.Event()
        self._cause: Exception | None = None

    def trip(self, cause: Exception, *, drain: bool = False) -> None:
        """End what is going on because of `cause`; a second cause is not kept, but ends a drain."""
        if self._cause is None:
            self._cause = cause
            self.event.set()
        if not drain:
            self.at_once.set()

    def check(self) -> None:
        """Raise the cause, if there is one."""
        if self._cause is not None:
            raise self._cause

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; if this trips first, `work` is cancelled and has ended before the cause is raised."""
        task, tripped = asyncio.ensure_future(work), asyncio.ensure_future(self.event.wait())
        try:
            await asyncio.wait({task, tripped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            tripped.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if self._cause is not None:
            if not task.cancelled():
                task.exception()  # seen: the cause says why
            raise self._cause
        return task.result()
