"""Rate-limited TCP links in front of local servers.

    python -m harness.stack.link_proxy --link 7201:7101 --link 7202:7102 --bytes-per-s 2e7 --latency-s 0.001

Each link listens on its first port and forwards to its second. It stands for the network and the server thread that
cap a real Valkey instance. All connections of a link share its rate in turn; each direction has its own; latency is one
way and does not lower the rate. Delivery is to the nearest half millisecond. One line, `ready`, goes to stdout when
every link listens; SIGTERM ends it.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import uvloop

from harness.stack.link_queue import LinkQueue, Piece

_TIMER_GRAIN_S = 0.001  # of libuv
_PIECE_S = 0.02  # a piece is what passes in this time: more of them would only wake up cores that the engine needs
_PIECE_BYTES = (4096, 1 << 16)  # and at least, at most so much
# Read ahead: how late this process may wake up, on cores that vLLM keeps busy, without losing rate.
_READ_AHEAD_S = 0.25
_READ_AHEAD_BYTES = 1 << 23  # and at most so much a connection
_NICENESS = -10
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s: close() sends RST


@dataclass(frozen=True, slots=True)
class Link:
    """Listen on one port, forward to the other."""

    listen_port: int
    upstream_port: int

    @staticmethod
    def parse(text: str) -> "Link":
        """`LISTEN_PORT:UPSTREAM_PORT`. Raises ValueError."""
        listen_port, upstream_port = (int(port) for port in text.split(":"))
        if not (0 < listen_port < 65536 and 0 < upstream_port < 65536):
            raise ValueError(f"{text!r}: ports are 1 to 65535")
        return Link(listen_port, upstream_port)


class Direction:
    """One direction of one link: the queue, and the timer that delivers what comes out of it."""

    def __init__(self, bytes_per_s: float, latency_s: float) -> None:
        self.capacity_bytes = int(bytes_per_s * latency_s + min(bytes_per_s * _READ_AHEAD_S, _READ_AHEAD_BYTES))
        self._piece_bytes = min(max(int(bytes_per_s * _PIECE_S), _PIECE_BYTES[0]), _PIECE_BYTES[1])
        self._queue: LinkQueue[End] = LinkQueue(bytes_per_s, latency_s)
        self._timer: asyncio.TimerHandle | None = None

    def send(self, source: "End", data: bytes) -> None:
        """Put what `source` has received on its way to its peer; empty data is the end of the stream."""
        now = time.monotonic()
        view = memoryview(data)
        for first in range(0, max(len(data), 1), self._piece_bytes):
            self._queue.offer(source, view[first : first + self._piece_bytes], now)
        self._deliver()

    def forget(self, source: "End") -> None:
        """Give the rate that a broken connection would still use to the others."""
        self._queue.forget(source)

    def _deliver(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = time.monotonic()
        for source, piece in self._queue.come_out(now + _TIMER_GRAIN_S / 2):
            source.delivered(piece)
        next_at = self._queue.next_at()
        if next_at is not None:
            self._timer = asyncio.get_running_loop().call_later(next_at - now, self._deliver)


class End(asyncio.Protocol):
    """One end of a proxied connection: what it receives goes over `direction` and is written to its peer.

    `connected` is called when its transport is there. What it receives before `start` is kept until then.
    """

    transport: asyncio.Transport

    def __init__(self, direction: Direction, connected: Callable[["End"], None]) -> None:
        self._direction = direction
        self._connected = connected
        self._peer: End | None = None
        self._early: list[bytes] = []
        self._on_the_way_bytes = 0
        self._peer_is_full = False
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for `start`."""
        self.transport = cast(asyncio.Transport, transport)
        self._connected(self)

    def start(self, peer: "End") -> None:
        """Send, now that there is a peer to write to."""
        self._peer = peer
        peer.transport.set_write_buffer_limits(high=self._direction.capacity_bytes)
        for data in self._early:
            self._direction.send(self, data)
        self._early.clear()
        self._regulate()

    def data_received(self, data: bytes) -> None:
        """Onto the link."""
        self._on_the_way_bytes += len(data)
        self._send(data)
        self._regulate()

    def eof_received(self) -> bool:
        """The end of the stream follows its data over the link; the other way stays open."""
        self._send(b"")
        return True

    def delivered(self, piece: Piece) -> None:
        """A piece has come out at the peer's side; an empty one is the end of the stream."""
        peer = self._peer
        if peer is None or peer.transport.is_closing():
            return
        if piece:
            self._on_the_way_bytes -= len(piece)
            peer.transport.write(piece)
            self._regulate()
            return
        self._has_ended = True
        if peer._has_ended:
            self.transport.close()
            peer.transport.close()
        else:
            peer.transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Break the other half too, at once, unless both streams have ended in order."""
        self._direction.forget(self)
        if self._peer is not None and (exc is not None or not (self._has_ended and self._peer._has_ended)):
            self._peer.reset()

    def pause_writing(self) -> None:
        """Whoever reads here is slow: hold back the peer."""
        if self._peer is not None:
            self._peer.hold(True)

    def resume_writing(self) -> None:
        """Whoever reads here has caught up."""
        if self._peer is not None:
            self._peer.hold(False)

    def hold(self, peer_is_full: bool) -> None:
        """Stop or go on reading."""
        self._peer_is_full = peer_is_full
        self._regulate()

    def reset(self) -> None:
        """Close with RST, as the other half did or would have."""
        endpoint = self.transport.get_extra_info("socket")  # None once it is closed
        if endpoint is not None:
            with contextlib.suppress(OSError):
                endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()

    def _send(self, data: bytes) -> None:
        if self._peer is None:
            self._early.append(data)
        else:
            self._direction.send(self, data)

    def _regulate(self) -> None:
        """Read only while the link's queue and the peer have room."""
        if self.transport.is_closing():
            return
        if self._peer is None or self._peer_is_full or self._on_the_way_bytes > self._direction.capacity_bytes:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()


class LinkServer:
    """One link: its two directions, and the connections that share them."""

    def __init__(self, host: str, link: Link, bytes_per_s: float, latency_s: float) -> None:
        self._host = host
        self._link = link
        self._up = Direction(bytes_per_s, latency_s)
        self._down = Direction(bytes_per_s, latency_s)
        self._connecting: set[asyncio.Task[None]] = set()

    async def listen(self) -> asyncio.Server:
        """Accept connections from now on. Raises OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: End(self._up, self._accepted), self._host, self._link.listen_port)

    def _accepted(self, client: End) -> None:
        task = asyncio.get_running_loop().create_task(self._join(client))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _join(self, client: End) -> None:
        """Connect a client to the upstream server; without one, its connection ends at once."""
        loop = asyncio.get_running_loop()
        try:
            _, server = await loop.create_connection(
                lambda: End(self._down, lambda _: None), self._host, self._link.upstream_port
            )
        except OSError:
            client.reset()
            return
        if client.transport.is_closing():
            server.reset()
            return
        client.start(server)
        server.start(client)


async def serve(host: str, links: Sequence[Link], bytes_per_s: float, latency_s: float) -> None:
    """Run the links until SIGTERM or SIGINT. Raises OSError when a port is taken."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as listening:
        for link in links:
            server = await LinkServer(host, link, bytes_per_s, latency_s).listen()
            listening.callback(server.close)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stop.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """The program. Wrong arguments end it with status 2, a taken port with status 1."""
    parser = argparse.ArgumentParser(description="rate-limited TCP links in front of local servers")
    parser.add_argument(
        "--link", dest="links", type=Link.parse, action="append", required=True, metavar="LISTEN_PORT:UPSTREAM_PORT"
    )
    parser.add_argument("--bytes-per-s", type=float, required=True, help="rate of each direction of each link")
    parser.add_argument("--latency-s", type=float, default=0.0, help="one-way delay")
    parser.add_argument("--host", default="127.0.0.1", help="address of both ends")
    given = parser.parse_args(arguments)
    if not (given.bytes_per_s > 0 and given.latency_s >= 0):
        parser.error("--bytes-per-s must be positive and --latency-s not negative")
    with contextlib.suppress(PermissionError):
        os.nice(_NICENESS)  # it stands for hardware, which does not queue for a core
    try:
        uvloop.run(serve(given.host, given.links, given.bytes_per_s, given.latency_s))
    except OSError as trouble:
        raise SystemExit(f"link_proxy: {trouble}") from trouble


if __name__ == "__main__":
    main()
