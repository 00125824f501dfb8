"""TCP ports on this machine."""

import asyncio
import socket

from harness.stack.ports import free_ports, listens


def test_a_port_listens_while_somebody_accepts_on_it() -> None:
    """A listening socket is seen, one that was closed is not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert asyncio.run(listens(port))
    assert not asyncio.run(listens(port))


def test_a_port_is_given_once() -> None:
    """What one stack was given and does not listen on yet is not given to the next."""
    given = [port for _ in range(40) for port in free_ports(25)]
    assert len(set(given)) == len(given)
