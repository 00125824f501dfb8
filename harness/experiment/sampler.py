"""`python -m harness.experiment.sampler`: samples the servers of one arm until its orders end; sampling.py gives them.

Orders come over stdin, what was seen goes over stdout. It ends when stdin does, so it outlives nobody.
"""

import asyncio
import contextlib
import signal
import sys

from harness.client import frames
from harness.client.clock import MonotonicClock
from harness.collect import Sampler
from harness.experiment.sampling import SamplingJob, Seen
from harness.records import ServerSample

_STDOUT = 1


async def _work() -> None:
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    job: SamplingJob = await frames.read(orders)
    clock, seen = MonotonicClock(), list[ServerSample]()
    now_ns = lambda: clock.now_ns() - job.t0_ns  # noqa: E731 - a def would say no more
    async with Sampler(job.targets, seen.extend, now_ns=now_ns, interval_s=job.interval_s, http=job.http) as sampler:
        with contextlib.suppress(EOFError):
            while True:
                await frames.read(orders)
                frames.write(_STDOUT, Seen(seen, sampler.gaps, sampler.reasons))
                seen.clear()


def main() -> None:
    """Sample until nobody gives orders. Signals are the business of the process that does."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError):
        asyncio.run(_work())


if __name__ == "__main__":
    main()
