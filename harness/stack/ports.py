"""TCP ports on this machine: which are free, and whether somebody listens on one."""

import asyncio
import contextlib
import socket

_promised: set[int] = set()
"""Ports that were handed out: a server that is to listen there may still be importing while another one is started."""


def free_ports(count: int) -> list[int]:
    """`count` different ports that are free on 127.0.0.1 now, and that this process was not given before."""
    found: list[int] = []
    with contextlib.ExitStack() as held:  # held open together while choosing, so that none repeats
        while len(found) < count:
            one = held.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if port not in _promised:
                found.append(port)
    _promised.update(found)
    return found


def free_row(count: int) -> int:
    """The first of `count` neighbouring ports that are free on 127.0.0.1 now."""
    while True:
        first = free_ports(1)[0]
        with contextlib.ExitStack() as held, contextlib.suppress(OSError, OverflowError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


async def listens(port: int) -> bool:
    """Whether somebody accepts connections on 127.0.0.1:`port`.

    Asking this costs a hundredth of an HTTP request, and what is asked while a server starts is taken from its cores.
    """
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
