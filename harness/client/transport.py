"""The seam to the network: send one request, log what comes back with the time at which it came."""

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from harness.records import Outcome
from harness.schedule import PlannedRequest


@dataclass(slots=True)
class Exchange:
    """A log of one request, filled in as it happens, so that what was seen survives any way of ending.

    All times are `Clock.now_ns()`. `sent_ns` is read as the request's bytes are written to an open connection,
    `headers_ns` when status and headers are there, each chunk's time as its bytes are taken from the connection,
    before anything looks at them, and `done_ns` is the time of the bytes that ended the response.
    """

    sent_ns: int | None = None
    headers_ns: int | None = None
    status: int | None = None
    chunks: list[tuple[int, bytes]] = field(default_factory=list)
    done_ns: int | None = None


class TransportTrouble(Exception):  # noqa: N818 - not an error of the program: it becomes a record's outcome
    """The network's way of saying no: the outcome it amounts to, and its own words."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message


class Transport(Protocol):
    """Sends requests, any number at once, and never limits, delays or retries them."""

    def send(self, request: PlannedRequest, request_id: str, seen: Exchange) -> asyncio.Future[None]:
        """Begin to POST `request.body` under X-Request-Id `request_id`; the future is done with the last byte.

        Writes into `seen` as things happen. Any HTTP status is a normal end. Sets no time limit of its own: cancelling
        the future closes the connection. The future raises TransportTrouble: refused where no connection was made,
        not_sent where this machine could not make one, http_error where the answer is not HTTP, truncated where the
        connection ended early.
        """
        ...

    async def prepare(self, requests: int) -> None:
        """Have connections open for this many requests that are due soon, where that can be done. Never raises."""
        ...
