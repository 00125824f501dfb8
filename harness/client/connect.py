"""From a target to the transport that sends to it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from harness.client.aiohttp_transport import AiohttpTransport
from harness.client.clock import Clock
from harness.client.httptools_transport import HttptoolsTransport
from harness.client.route import Route, server_of
from harness.client.target import Http, Target
from harness.client.transport import Exchange, Transport
from harness.schedule import PlannedRequest


@contextlib.asynccontextmanager
async def connected(target: Target, clock: Clock) -> AsyncIterator[Transport]:
    """A transport to the servers of `target`, open for as long as the context is; nothing is sent yet."""
    transports: list[Transport] = []
    async with contextlib.AsyncExitStack() as exits:
        for server in target.servers():
            if target.http is Http.HTTPTOOLS:
                transports.append(await exits.enter_async_context(HttptoolsTransport(server, clock)))
            else:
                transports.append(await exits.enter_async_context(AiohttpTransport(server, clock)))
        yield transports[0] if len(transports) == 1 else _Spread(transports, target.route)


class _Spread:
    """Several servers as one transport."""

    def __init__(self, transports: Sequence[Transport], route: Route) -> None:
        self._transports = transports
        self._route = route

    def send(self, request: PlannedRequest, request_id: str, seen: Exchange) -> asyncio.Future[None]:
        """To the server that the route says."""
        chosen = server_of(request, self._route, len(self._transports))
        return self._transports[chosen].send(request, request_id, seen)

    async def prepare(self, requests: int) -> None:
        """An equal share each, rounded up; which server needs more shows when they are due."""
        share = -(-requests // len(self._transports))
        await asyncio.gather(*(transport.prepare(share) for transport in self._transports))
