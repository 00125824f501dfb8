"""The seam to the network: send one request, log what comes back with the time at which it came."""

from dataclasses import dataclass, field
from typing import Protocol

from harness.records import Outcome


@dataclass(slots=True)
class Exchange:
    """A log of one request, filled in as it happens, so that what was seen survives any way of ending.

    All times are `Clock.now_ns()`. `sent_ns` is read as the request's bytes are written to an open connection,
    `headers_ns` when status and headers are there, and each chunk's time as its bytes are taken from the connection,
    before anything looks at them.
    """

    sent_ns: int | None = None
    headers_ns: int | None = None
    status: int | None = None
    chunks: list[tuple[int, bytes]] = field(default_factory=list)


class TransportTrouble(Exception):  # noqa: N818 - not an error of the program: it becomes a record's outcome
    """The network's way of saying no: the outcome it amounts to, and its own words."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message


class Transport(Protocol):
    """Sends completions requests to one server, any number at once, and never limits or retries them."""

    async def send(self, body: bytes, request_id: str, seen: Exchange) -> None:
        """POST `body` to /v1/completions with X-Request-Id `request_id`; return after the response's last byte.

        Writes into `seen` as things happen. Any HTTP status is a normal return. Sets no time limit of its own: the
        caller cancels. Raises TransportTrouble where no connection was made (refused) or it ended early (truncated).
        """
        ...
