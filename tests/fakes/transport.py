"""A transport that plays scripts instead of using a network."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from harness.client import Clock, Exchange, TransportTrouble
from harness.schedule import PlannedRequest

DONE = b"data: [DONE]\n\n"
FINISH = b'data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}\n\n'
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,'
    b'"prompt_tokens_details":{"cached_tokens":1}}}\n\n'
)


def token(text: str) -> bytes:
    """A stream event with one token's text."""
    return b'data: {"choices":[{"index":0,"text":"%s"}]}\n\n' % text.encode()


@dataclass(frozen=True, slots=True)
class Script:
    """What a server does with one request. All times are ns: `connect_ns`, then `headers_after_ns`, then for each
    body chunk a wait and its bytes; `trouble` is raised at the end, or at once if `connects` is False."""

    chunks: tuple[tuple[int, bytes], ...] = ()
    status: int = 200
    connect_ns: int = 0
    headers_after_ns: int = 0
    connects: bool = True
    trouble: TransportTrouble | None = None


def answers(ttft_ns: int, tokens: int = 2, itl_ns: int = 0) -> Script:
    """A whole answer of `tokens` tokens."""
    gaps = (ttft_ns, *[itl_ns] * (tokens - 1))
    return Script(chunks=(*((gap, token("w")) for gap in gaps), (0, FINISH + USAGE + DONE)))


class FakeTransport:
    """Plays `script(request_id)`; keeps when each request was sent, and how many were in flight at most."""

    def __init__(self, clock: Clock, script: Callable[[str], Script]) -> None:
        self._clock, self._script = clock, script
        self.sent: list[tuple[int, str, bytes]] = []
        self.prepared: list[tuple[int, int]] = []
        self.in_flight = self.most_in_flight = 0

    def send(self, request: PlannedRequest, request_id: str, seen: Exchange) -> asyncio.Future[None]:
        """Play the request's script."""
        return asyncio.ensure_future(self._send(request.body, request_id, seen))

    async def prepare(self, requests: int) -> None:
        """Nothing to open; keeps what was asked for."""
        self.prepared.append((self._clock.now_ns(), requests))

    async def _send(self, body: bytes, request_id: str, seen: Exchange) -> None:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self._play(self._script(request_id), body, request_id, seen)
        finally:
            self.in_flight -= 1

    async def _play(self, script: Script, body: bytes, request_id: str, seen: Exchange) -> None:
        await self._wait(script.connect_ns)
        if script.trouble and not script.connects:
            raise script.trouble
        seen.sent_ns = self._clock.now_ns()
        self.sent.append((seen.sent_ns, request_id, body))
        await self._wait(script.headers_after_ns)
        seen.headers_ns, seen.status = self._clock.now_ns(), script.status
        for gap_ns, data in script.chunks:
            await self._wait(gap_ns)
            seen.chunks.append((self._clock.now_ns(), data))
        if script.trouble:
            raise script.trouble
        seen.done_ns = self._clock.now_ns()

    async def _wait(self, gap_ns: int) -> None:
        await asyncio.sleep(0)
        await self._clock.sleep_until(self._clock.now_ns() + gap_ns)
