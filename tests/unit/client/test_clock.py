"""The clock of this machine, and the fake that stands for it."""

import asyncio

from harness.client import MonotonicClock
from tests.fakes.clock import FakeClock, run_virtual


def test_sleep_never_ends_early() -> None:
    """The clock reads at least the due time once the sleep is over, for waits on both sides of the coarse margin."""

    async def sleeps() -> list[int]:
        clock, early_ns = MonotonicClock(), []
        for wait_ns in (-1_000, 0, 200_000, 2_000_000, 12_000_000):
            due_ns = clock.now_ns() + wait_ns
            await clock.sleep_until(due_ns)
            early_ns.append(due_ns - clock.now_ns())
        return early_ns

    assert max(asyncio.run(sleeps())) <= 0


def test_waiting_lets_others_run() -> None:
    """A sleep yields to the event loop all along, in its fine part too."""

    async def turns_taken() -> int:
        clock, turns = MonotonicClock(), 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        await clock.sleep_until(clock.now_ns() + 1_000_000)
        task.cancel()
        return turns

    assert asyncio.run(turns_taken()) > 1


def test_the_fake_clock_is_exact() -> None:
    """Virtual sleeps end at their nanosecond, in any order, without waiting."""

    async def wake_times(clock: FakeClock) -> list[int]:
        due_ns = [3, 1_000_000_007, 500_000_001, 86_400_000_000_123]

        async def wake(due: int) -> int:
            await clock.sleep_until(due)
            return clock.now_ns() - due

        return await asyncio.gather(*map(wake, due_ns))

    assert run_virtual(wake_times) == [0, 0, 0, 0]
