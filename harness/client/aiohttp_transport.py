"""The transport over aiohttp: to be chosen where one wants to see whether a figure depends on the HTTP library."""

import asyncio
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from harness.client.clock import Clock
from harness.client.target import Server
from harness.client.transport import Exchange, TransportTrouble
from harness.client.trouble import connect_trouble
from harness.records import Outcome
from harness.schedule import PlannedRequest

_KEEP_ALIVE_S = 2.0
"""Shorter than any server's (uvicorn, hence vLLM: 5 s), so no request goes out on a connection about to be closed."""

_READ_BUFFER_BYTES = 1 << 20
"""Before aiohttp stops reading a socket; far above what arrives between two turns of the event loop."""


class AiohttpTransport:
    """Sends to one server. Use as an async context manager.

    As many connections as requests in flight, kept for reuse; Nagle's algorithm off (aiohttp's own default); no
    compression, redirects, cookies, proxies, retries or time limits.
    """

    def __init__(self, server: Server, clock: Clock) -> None:
        self._url = server.url.rstrip("/") + server.path
        self._tls = server.tls_context()
        self._clock = clock
        self._headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if server.api_key is not None:
            self._headers["Authorization"] = f"Bearer {server.api_key}"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S, ssl=self._tls or True),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
            raise_for_status=False,
            trust_env=False,
            read_bufsize=_READ_BUFFER_BYTES,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    def send(self, request: PlannedRequest, request_id: str, seen: Exchange) -> asyncio.Future[None]:
        """See Transport.send."""
        return asyncio.ensure_future(self._send(request.body, request_id, seen))

    async def prepare(self, requests: int) -> None:
        """Does nothing: aiohttp cannot open a connection without sending a request on it."""

    async def _send(self, body: bytes, request_id: str, seen: Exchange) -> None:
        now_ns = self._clock.now_ns
        payload = _StampedBody(body, seen, self._clock)
        try:
            async with self._session.post(
                self._url, data=payload, headers={"X-Request-Id": request_id}, allow_redirects=False
            ) as response:
                seen.headers_ns = now_ns()
                seen.status = response.status
                read, keep = response.content.readany, seen.chunks.append
                while data := await read():
                    keep((now_ns(), data))
                seen.done_ns = now_ns()
        except (aiohttp.ClientError, OSError) as error:
            raise _trouble(error) from error


class _StampedBody(aiohttp.Payload):
    """A body that notes when it is written: after the connection is there, in one write with the headers."""

    def __init__(self, body: bytes, seen: Exchange, clock: Clock) -> None:
        super().__init__(body, content_type="application/json")
        self._size = len(body)
        self._seen = seen
        self._clock = clock

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        self._seen.sent_ns = self._clock.now_ns()
        await writer.write(self._value)


def _trouble(error: Exception) -> TransportTrouble:
    """What an exception of the HTTP library means for a request: the one place that decides it."""
    match error:
        case aiohttp.ClientConnectorError():
            return connect_trouble(error)
        case aiohttp.ClientResponseError():  # the server's bytes are not HTTP
            outcome = Outcome.HTTP_ERROR
        case _:  # the connection was there and ended before the response did
            outcome = Outcome.TRUNCATED
    return TransportTrouble(outcome, f"{type(error).__name__}: {error}")
