"""One planned request, sent once and turned into its record."""

import asyncio
from collections.abc import Callable, Coroutine

from harness.client.clock import Clock
from harness.client.read_response import read_answer
from harness.client.timeouts import Timeouts
from harness.client.transport import Exchange, Transport, TransportTrouble
from harness.records import Cell, Outcome, RequestRecord
from harness.schedule import PlannedRequest

Watch = Callable[[RequestRecord], None]


async def one_request(
    request: PlannedRequest,
    cell: Cell,
    due_ns: int,
    *,
    transport: Transport,
    clock: Clock,
    timeouts: Timeouts,
    watch: Watch | None = None,
) -> RequestRecord:
    """Send `request` now and return its record; `due_ns` (on the clock) is when it should have been sent.

    `watch` gets the record too, even when this task is cancelled: the request is then `cancelled`, its connection is
    closed so that the server stops working on it, and the cancellation goes on.
    """
    seen = Exchange()

    def ended(trouble: TransportTrouble | None) -> RequestRecord:
        record = _record(request, cell, due_ns, clock.now_ns(), seen, trouble)
        if watch is not None:
            watch(record)
        return record

    try:
        sending = transport.send(request.body, cell.request_id(request.seq), seen)
        await _within(timeouts, sending, seen, clock)
    except TransportTrouble as trouble:
        return ended(trouble)
    except asyncio.CancelledError:
        ended(TransportTrouble(Outcome.CANCELLED, "stopped before its response was complete"))
        raise
    return ended(None)


def _record(
    request: PlannedRequest, cell: Cell, due_ns: int, done_ns: int, seen: Exchange, trouble: TransportTrouble | None
) -> RequestRecord:
    """What the server said decides the outcome; how the wire ended explains only what the server left unsaid."""
    answer = read_answer(seen.status, seen.chunks)
    outcome, error = answer.outcome, answer.error
    if trouble is not None and outcome is Outcome.TRUNCATED:
        outcome, error = trouble.outcome, trouble.message

    def since_origin(t_ns: int | None) -> int | None:
        return None if t_ns is None else t_ns - cell.t0_ns

    return RequestRecord(
        cell=cell,
        seq=request.seq,
        row=request.row,
        session=request.session,
        prompt_tokens_planned=len(request.tokens),
        max_tokens=request.max_tokens,
        due_ns=due_ns - cell.t0_ns,
        outcome=outcome,
        sent_ns=since_origin(seen.sent_ns),
        headers_ns=since_origin(seen.headers_ns),
        first_token_ns=since_origin(answer.first_token_ns),
        last_token_ns=since_origin(answer.last_token_ns),
        done_ns=since_origin(done_ns),
        chunk_ns=tuple(t_ns - cell.t0_ns for t_ns in answer.chunk_ns),
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        cached_tokens=answer.cached_tokens,
        output_text=answer.text,
        status=seen.status,
        error=error,
    )


async def _within(timeouts: Timeouts, sending: Coroutine[None, None, None], seen: Exchange, clock: Clock) -> None:
    """Await `sending`, but no longer than `timeouts` allow; raises TransportTrouble (timeout) naming the limit."""
    alarm = _Alarm(timeouts, seen, clock)
    try:
        async with asyncio.timeout(None) as alarm.scope:
            alarm.look()
            await sending
    except TimeoutError as error:
        limit_s = getattr(timeouts, alarm.broken)
        raise TransportTrouble(Outcome.TIMEOUT, f"{alarm.broken}: {limit_s:g} s passed") from error
    finally:
        alarm.off()


class _Alarm:
    """Looks at a request from time to time, not at every chunk, and yet ends it on time.

    A limit that begins after a look ends no sooner than the shortest limit after that look, so that is when to look
    again, or at the end of the limit that runs now if that comes first.
    """

    scope: asyncio.Timeout

    def __init__(self, timeouts: Timeouts, seen: Exchange, clock: Clock) -> None:
        self._timeouts, self._seen, self._clock = timeouts, seen, clock
        self._begun_ns = clock.now_ns()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.broken = ""

    def look(self) -> None:
        """End the request if a limit has passed, else look again when the next one would."""
        name, ends_ns = self._timeouts.next_limit(self._begun_ns, self._seen)
        left_ns = ends_ns - self._clock.now_ns()
        if left_ns > 0:
            self._timer = self._loop.call_later(min(left_ns / 1e9, self._timeouts.shortest_s), self.look)
        else:
            self.broken = name
            self.scope.reschedule(self._loop.time())

    def off(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
