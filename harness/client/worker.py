"""`python -m harness.client.worker`: one of several processes that send one pass together; workers.py tells it what.

Its share of the plan comes over stdin, its records go over stdout. It ends when stdin does, so it outlives nobody.
"""

import asyncio
import contextlib
import signal
import sys

import uvloop

from harness.client import frames
from harness.client.clock import MonotonicClock
from harness.client.connect import connected
from harness.client.open_files import raise_open_files
from harness.client.replay import replay
from harness.client.request import Carriage
from harness.client.workers import Share
from harness.records import RequestRecord

_STDOUT = 1
_SEND_EVERY_S = 0.2
"""How often records are handed on: pickling them in mid-pass costs what reading them does, so it is done in lots."""


async def _work() -> None:
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    clock, stop, drain = MonotonicClock(), asyncio.Event(), asyncio.Event()
    share: Share = await frames.read(orders)
    lot: list[RequestRecord] = []
    async with connected(share.target, clock) as transport:
        await transport.prepare(share.first_burst())
        _answer("ready")
        start_ns = await _start(orders, stop, drain)
        obeying = asyncio.create_task(_obey(orders, stop, drain))
        handing_on = asyncio.create_task(_hand_on(lot))
        try:
            await replay(
                share.plan,
                share.cell,
                carriage=Carriage(transport, clock, share.target.timeouts, share.target.retries),
                start_ns=start_ns,
                watch=lot.append,
                stop=stop,
                drain=drain,
            )
        finally:
            obeying.cancel()
            handing_on.cancel()
    _answer(lot)
    _answer("done")


async def _start(orders: asyncio.StreamReader, stop: asyncio.Event, drain: asyncio.Event) -> int:
    """When to begin, on the clock; an order to end may come first."""
    while True:
        order: int | str = await frames.read(orders)
        if isinstance(order, int):
            return order
        (stop if order == "stop" else drain).set()


async def _obey(orders: asyncio.StreamReader, stop: asyncio.Event, drain: asyncio.Event) -> None:
    """Drain or stop when told to, and stop when nobody is there any more."""
    with contextlib.suppress(EOFError):
        while True:
            (stop if await frames.read(orders) == "stop" else drain).set()
    stop.set()


async def _hand_on(lot: list[RequestRecord]) -> None:
    while True:
        await asyncio.sleep(_SEND_EVERY_S)
        if lot:
            _answer(list(lot))
            lot.clear()


def _answer(message: object) -> None:
    frames.write(_STDOUT, message)


def main() -> None:
    """Work until the pass is over. Signals are the business of the process that gives the orders."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise_open_files()
    with contextlib.suppress(EOFError, BrokenPipeError):
        uvloop.run(_work())


if __name__ == "__main__":
    main()
