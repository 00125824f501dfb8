"""TCP ports on this machine."""

import asyncio
import socket

from harness.stack.ports import listens


def test_a_port_listens_while_somebody_accepts_on_it() -> None:
    """A listening socket is seen, one that was closed is not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert asyncio.run(listens(port))
    assert not asyncio.run(listens(port))
