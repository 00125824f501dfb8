"""One planned request on its way, and the record of what became of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from harness.client.clock import Clock
from harness.client.read_response import read_answer
from harness.client.timeouts import Timeouts
from harness.client.transport import Exchange, Transport, TransportTrouble
from harness.records import Cell, Outcome, RequestRecord
from harness.schedule import PlannedRequest

RETRY_WAIT_S = 0.5
"""Before a request is sent again, times the number of sends so far."""

_TURNED_AWAY = frozenset({429, 502, 503, 504})
"""Statuses by which a server says "not now"."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A planned request that is over, its response not yet read. `due_ns` and `done_ns` are on the clock."""

    request: PlannedRequest
    due_ns: int
    done_ns: int | None
    seen: Exchange
    trouble: TransportTrouble | None
    attempts: int

    @staticmethod
    def lost(request: PlannedRequest, due_ns: int, outcome: Outcome, why: str) -> "Ended":
        """A request of which nothing was seen."""
        return Ended(request, due_ns, None, Exchange(), TransportTrouble(outcome, why), 0)

    def record(self, cell: Cell) -> RequestRecord:
        """What the server said decides the outcome; how the wire ended explains only what the server left unsaid."""
        request, seen = self.request, self.seen
        answer = read_answer(seen.status, seen.chunks)
        outcome, error = answer.outcome, answer.error
        if self.trouble is not None and outcome is Outcome.TRUNCATED:
            outcome, error = self.trouble.outcome, self.trouble.message

        def since_origin(t_ns: int | None) -> int | None:
            return None if t_ns is None else t_ns - cell.t0_ns

        return RequestRecord(
            cell=cell,
            seq=request.seq,
            row=request.row,
            session=request.session,
            prompt_tokens_planned=len(request.tokens),
            max_tokens=request.max_tokens,
            due_ns=self.due_ns - cell.t0_ns,
            outcome=outcome,
            sent_ns=since_origin(seen.sent_ns),
            headers_ns=since_origin(seen.headers_ns),
            first_token_ns=since_origin(answer.first_token_ns),
            last_token_ns=since_origin(answer.last_token_ns),
            done_ns=since_origin(self.done_ns),
            chunk_ns=tuple(t_ns - cell.t0_ns for t_ns in answer.chunk_ns),
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cached_tokens=answer.cached_tokens,
            output_text=answer.text,
            server_queue_ms=answer.server_queue_ms,
            server_prefill_ms=answer.server_prefill_ms,
            response_id=answer.response_id,
            status=seen.status,
            error=error,
            attempts=self.attempts,
        )


@dataclass(frozen=True, slots=True)
class Carriage:
    """How requests are carried: over which transport, by which clock, within which limits, sent again how often."""

    transport: Transport
    clock: Clock
    timeouts: Timeouts
    retries: int = 0


class Flight:
    """One request, from the moment it is sent until it is over. Sends it at once; `landed` gets how it ended, once.

    A bug (an exception that is no TransportTrouble) goes to `crashed` first. Limits are looked at from time to time,
    not at every chunk, and yet end a request on time: a limit that begins after a look ends no sooner than the shortest
    limit after that look, so that is when to look again, or at the end of the limit that runs now if that comes first.
    """

    def __init__(
        self,
        request: PlannedRequest,
        request_id: str,
        due_ns: int,
        carriage: Carriage,
        landed: Callable[[Ended], None],
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._request, self._request_id, self._due_ns = request, request_id, due_ns
        self._carriage, self._landed, self._crashed = carriage, landed, crashed
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._ended_by: TransportTrouble | None = None
        self._attempts = 0
        self._begun_ns = carriage.clock.now_ns()
        self._send()

    def cancel(self, why: str) -> None:
        """End it now as `cancelled`: its connection is closed, so that the server stops working on it."""
        self._end_by(TransportTrouble(Outcome.CANCELLED, why))

    def _send(self) -> None:
        self._is_waiting = False
        self._attempts += 1
        self._seen = Exchange()
        self._sending = self._carriage.transport.send(self._request, self._request_id, self._seen)
        self._sending.add_done_callback(self._over)
        self._look()

    def _look(self) -> None:
        """End the request if a limit has passed, else look again when the next one would."""
        timeouts = self._carriage.timeouts
        name, ends_ns = timeouts.next_limit(self._begun_ns, self._seen)
        left_ns = ends_ns - self._carriage.clock.now_ns()
        if left_ns > 0:
            self._timer = self._loop.call_later(min(left_ns / 1e9, timeouts.shortest_s), self._look)
        else:
            limit_s: float = getattr(timeouts, name)
            self._end_by(TransportTrouble(Outcome.TIMEOUT, f"{name}: {limit_s:g} s passed"))

    def _end_by(self, trouble: TransportTrouble) -> None:
        if self._ended_by is not None:
            return
        self._ended_by = trouble
        if self._is_waiting:
            self._land(trouble)
        else:
            self._sending.cancel()  # one that is over already lands as what it was

    def _over(self, sending: "asyncio.Future[None]") -> None:
        self._stop_looking()
        error = None if sending.cancelled() else sending.exception()
        if error is not None and not isinstance(error, TransportTrouble):
            self._crashed(error)
            error = self._ended_by = TransportTrouble(Outcome.CANCELLED, f"a bug ended it: {error!r}")
        trouble = self._ended_by if sending.cancelled() else error
        if self._is_worth_another(trouble):
            self._is_waiting = True
            self._timer = self._loop.call_later(RETRY_WAIT_S * self._attempts, self._send)
        else:
            self._land(trouble)

    def _is_worth_another(self, trouble: TransportTrouble | None) -> bool:
        if self._ended_by is not None or self._attempts > self._carriage.retries:
            return False
        if trouble is None:
            return self._seen.status in _TURNED_AWAY
        return self._seen.status is None and trouble.outcome in {Outcome.REFUSED, Outcome.TRUNCATED}

    def _land(self, trouble: TransportTrouble | None) -> None:
        self._stop_looking()
        seen = self._seen
        done_ns = self._carriage.clock.now_ns() if seen.done_ns is None else seen.done_ns
        if trouble is not None and trouble.outcome is Outcome.NOT_SENT:
            self._landed(Ended.lost(self._request, self._due_ns, trouble.outcome, trouble.message))
            return
        self._landed(Ended(self._request, self._due_ns, done_ns, seen, trouble, self._attempts))

    def _stop_looking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
