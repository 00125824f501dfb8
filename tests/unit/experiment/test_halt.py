"""Promises of harness.experiment.halt."""

import asyncio
import os
import signal

import pytest

from harness.errors import StackError
from harness.experiment.halt import Halt, InterruptedRun, interruptible


def test_work_that_ends_first_gives_its_result() -> None:
    """A guard that never trips changes nothing."""

    async def main() -> int:
        return await Halt().guard(asyncio.sleep(0, result=7))

    assert asyncio.run(main()) == 7


def test_a_trip_cancels_the_work_and_raises_the_cause() -> None:
    """The work's own clean-up has run before the cause is raised."""
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("yes")

    async def main() -> None:
        halt = Halt()
        asyncio.get_running_loop().call_soon(halt.trip, InterruptedRun())
        await halt.guard(work())

    with pytest.raises(InterruptedRun):
        asyncio.run(main())
    assert cleaned == ["yes"]


def test_the_first_cause_counts() -> None:
    """A stack that dies because the run was interrupted does not hide the interrupt."""

    async def main() -> None:
        halt = Halt()
        halt.trip(InterruptedRun())
        halt.trip(StackError("valkey-0 died"))
        halt.check()

    with pytest.raises(InterruptedRun):
        asyncio.run(main())


def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    """Guarding hides no error."""

    async def work() -> None:
        raise StackError("not ready")

    async def main() -> None:
        await Halt().guard(work())

    with pytest.raises(StackError, match="not ready"):
        asyncio.run(main())


def test_signals_interrupt_while_it_is_open() -> None:
    """Ctrl-C and SIGTERM, each time, from the background too; an ignored hangup (nohup) stays so."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGINT)}
    told = 0

    def interrupt() -> None:
        nonlocal told
        told += 1

    async def main() -> None:
        with interruptible(interrupt):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                os.kill(os.getpid(), number)
                await asyncio.sleep(0.01)

    try:
        asyncio.run(main())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert told == 3
