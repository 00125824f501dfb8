"""Free TCP ports on this machine."""

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """`count` different ports that are free on 127.0.0.1 now; held open together while choosing, so none repeats."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
