"""The transport of the load path: HTTP/1.1 over asyncio's own connections, parsed by httptools (llhttp, as in Node.js).

Between a byte's arrival and its time stamp lies one call from the event loop, and nothing else. docs/adr/0002 has the
measurements that led here.
"""

import asyncio
import contextlib
from collections import deque
from types import TracebackType
from typing import Self, cast
from urllib.parse import urlsplit

import httptools

from harness.client.clock import Clock
from harness.client.target import Server
from harness.client.transport import Exchange, TransportTrouble
from harness.client.trouble import connect_trouble
from harness.records import Outcome
from harness.schedule import PlannedRequest

_KEEP_ALIVE_NS = 2_000_000_000
"""Shorter than any server's (uvicorn, hence vLLM: 5 s), so no request goes out on a connection about to be closed."""

_CONNECT_AT_ONCE = 8
"""Connections opened together ahead of their requests: few, since a request that is due meanwhile waits for them."""


class HttptoolsTransport:
    """Sends to one server. Use as an async context manager.

    As many connections as requests in flight, kept for reuse, the longest idle one first, so that none grows old; what
    is written goes to the kernel at once, Nagle's algorithm off (asyncio's own default).
    """

    def __init__(self, server: Server, clock: Clock) -> None:
        parts = urlsplit(server.url)
        self._tls = server.tls_context()
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._tls else 80)
        self._now_ns = clock.now_ns
        self._head = _head(server, parts.netloc.rpartition("@")[2], parts.path)
        self._idle: deque[_Connection] = deque()
        self._open: set[_Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._connecting:
            task.cancel()
        for connection in list(self._open):
            connection.abort()
        await asyncio.sleep(0)  # the loop closes an aborted socket in its next turn

    def send(self, request: PlannedRequest, request_id: str, seen: Exchange) -> asyncio.Future[None]:
        """See Transport.send."""
        end: asyncio.Future[None] = self._loop.create_future()
        data = (self._head % (request_id.encode(), len(request.body)), request.body)
        connection = self._take_idle()
        if connection is not None:
            connection.begin(data, seen, end)
        else:
            task = self._loop.create_task(self._connect_and_begin(data, seen, end))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
            end.add_done_callback(lambda end: task.cancel() if end.cancelled() else None)
        return end

    async def prepare(self, requests: int) -> None:
        """See Transport.prepare."""
        self._drop_old()
        while (missing := requests - len(self._idle)) > 0:
            made = await asyncio.gather(
                *(self._connect() for _ in range(min(missing, _CONNECT_AT_ONCE))), return_exceptions=True
            )
            self._idle += [one for one in made if isinstance(one, _Connection) and one.is_open]
            if any(isinstance(one, BaseException) for one in made):
                return  # the request that is due will meet the same trouble, and say so

    async def _connect(self) -> "_Connection":
        """A new open connection. Raises OSError."""
        _, connection = await self._loop.create_connection(
            lambda: _Connection(self), self._host, self._port, ssl=self._tls
        )
        connection.idle_since_ns = self._now_ns()
        return connection

    async def _connect_and_begin(self, data: tuple[bytes, bytes], seen: Exchange, end: asyncio.Future[None]) -> None:
        try:
            connection = await self._connect()
        except (OSError, UnicodeError) as error:
            if not end.done():
                end.set_exception(connect_trouble(error))
            return
        if end.done():
            connection.abort()
        else:
            connection.begin(data, seen, end)

    def _take_idle(self) -> "_Connection | None":
        self._drop_old()
        while self._idle:
            connection = self._idle.popleft()
            if not connection.is_closing:
                return connection
        return None

    def _drop_old(self) -> None:
        """Close what the server may be about to close: the longest idle are the first."""
        while self._idle and self._now_ns() - self._idle[0].idle_since_ns > _KEEP_ALIVE_NS:
            self._idle.popleft().abort()


class _Connection(asyncio.Protocol):
    """One connection, and the request on it if there is one. Adds itself to its transport's lists and leaves them."""

    _wire: asyncio.Transport

    def __init__(self, pool: HttptoolsTransport) -> None:
        self._pool = pool
        self._now_ns = pool._now_ns
        self._parser = httptools.HttpResponseParser(self)
        self._seen: Exchange | None = None
        self._end: asyncio.Future[None] | None = None
        self._t_ns = 0
        self._has_length = False
        self._complete = False
        self._stays_open = False
        self.idle_since_ns = 0
        self.is_open = False

    @property
    def is_closing(self) -> bool:
        """Whether its end has begun, though `connection_lost` has not been called yet."""
        return self._wire.is_closing()

    def begin(self, data: tuple[bytes, bytes], seen: Exchange, end: asyncio.Future[None]) -> None:
        """Write a request; `end` gets its fate."""
        self._seen, self._end = seen, end
        end.add_done_callback(self._given_up)
        seen.sent_ns = self._now_ns()
        self._wire.writelines(data)

    def abort(self) -> None:
        """Close without waiting for anything."""
        self._wire.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Writes go out at once, not at the end of the event loop's turn: their time has been noted."""
        self._wire = cast(asyncio.Transport, transport)
        self._wire.set_write_buffer_limits(high=0)
        self.is_open = True
        self._pool._open.add(self)

    def data_received(self, data: bytes) -> None:
        """Note the time, then parse: httptools calls the `on_` methods."""
        self._t_ns = self._now_ns()
        if self._seen is None:  # nobody asked: this connection cannot be trusted any more
            self._wire.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(Outcome.HTTP_ERROR, f"the server's answer is not HTTP: {error or type(error).__name__}")
            return
        if self._complete:
            self._succeed()

    def on_message_begin(self) -> None:
        """A response begins; one with status 1xx is only a prelude."""
        self._has_length = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Whether the response says where it ends: otherwise it ends with the connection."""
        if name.lower() in {b"content-length", b"transfer-encoding"}:
            self._has_length = True

    def on_headers_complete(self) -> None:
        """Status and headers are there. Whether the connection stays open is known now: llhttp forgets it later."""
        seen = self._seen
        self._stays_open = self._parser.should_keep_alive()
        if seen is not None:
            seen.headers_ns, seen.status = self._t_ns, self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """A piece of the body, freed of its framing."""
        if self._seen is not None:
            self._seen.chunks.append((self._t_ns, body))

    def on_message_complete(self) -> None:
        """The last byte is in, unless this was the prelude."""
        seen = self._seen
        if seen is not None and seen.status is not None and seen.status < 200:
            seen.headers_ns = seen.status = None
        else:
            self._complete = True

    def connection_lost(self, exc: Exception | None) -> None:
        """The server, the network or we ended it."""
        self.is_open = False
        self._pool._open.discard(self)
        with contextlib.suppress(ValueError):
            self._pool._idle.remove(self)
        seen = self._seen
        if seen is None:
            return
        if exc is None and seen.status is not None and not self._has_length:
            self._t_ns = self._now_ns()
            self._succeed()
            return
        how = "closed the connection" if exc is None else f"broke the connection ({exc})"
        if seen.headers_ns is not None:
            when = "in the middle of its response"
        elif self._t_ns >= (seen.sent_ns or 0):
            when = "in the middle of its headers"
        else:
            when = "before it answered"
        self._fail(Outcome.TRUNCATED, f"the server {how} {when}")

    def _succeed(self) -> None:
        seen, end = self._seen, self._end
        self._seen = self._end = None
        self._complete = False
        if seen is not None:
            seen.done_ns = self._t_ns
        if self.is_open and self._stays_open and self._has_length:
            self.idle_since_ns = self._t_ns
            self._pool._idle.append(self)
        else:
            self._wire.abort()
        if end is not None and not end.done():
            end.set_result(None)

    def _fail(self, outcome: Outcome, message: str) -> None:
        end, self._seen, self._end = self._end, None, None
        self._wire.abort()
        if end is not None and not end.done():
            end.set_exception(TransportTrouble(outcome, message))

    def _given_up(self, end: asyncio.Future[None]) -> None:
        """The caller waits no longer: close, so that the server stops working on it."""
        if end.cancelled() and self._end is end:
            self._seen = self._end = None
            self._wire.abort()


def _head(server: Server, host: str, path: str) -> bytes:
    """The request's head with two blanks, the X-Request-Id and the length of the body."""
    lines = [
        f"POST {path.rstrip('/')}{server.path} HTTP/1.1",
        f"Host: {host}",
        "Accept: text/event-stream",
        "Accept-Encoding: identity",
        "Content-Type: application/json",
        *([f"Authorization: Bearer {server.api_key}"] if server.api_key else []),
    ]
    fixed = "\r\n".join(lines).replace("%", "%%").encode()
    return fixed + b"\r\nX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n"
