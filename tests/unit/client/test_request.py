"""One request and its record, in virtual time."""

import asyncio

import pytest

from harness.client import Carriage, Timeouts, TransportTrouble, replay
from harness.client.replay import Watch
from harness.records import Outcome, RequestRecord
from harness.schedule import PassPlan
from tests.fakes.clock import FakeClock, run_virtual
from tests.fakes.passes import PROMPT_TOKENS, cell, planned
from tests.fakes.transport import DONE, FINISH, USAGE, FakeTransport, Script, answers, token

LIMITS = Timeouts(connect_s=5, first_byte_s=3, between_bytes_s=2, total_s=9)
SECOND_NS = 1_000_000_000
MS = 1_000_000
REFUSED = TransportTrouble(Outcome.REFUSED, "connection refused")
CUT = TransportTrouble(Outcome.TRUNCATED, "connection reset")


async def _sent_alone(
    clock: FakeClock, script: Script, *, due_ns: int = 0, t0_ns: int = 0, watch: Watch | None = None, retries: int = 0
) -> RequestRecord:
    """The record of request 7, due at `due_ns`, when the server does as `script` says."""
    transport = FakeTransport(clock, lambda _: script)
    plan = PassPlan("replay", (planned(7, due_ns),), None)
    carriage = Carriage(transport, clock, LIMITS, retries)
    (record,) = await replay(plan, cell(t0_ns), carriage=carriage, start_ns=0, watch=watch)
    return record


def _record_of(script: Script) -> RequestRecord:
    async def main(clock: FakeClock) -> RequestRecord:
        return await _sent_alone(clock, script)

    return run_virtual(main)


def test_every_fact_of_a_good_request() -> None:
    """A record has the plan's facts, the times at which things happened, and the server's counts."""
    script = Script(
        connect_ns=1, headers_after_ns=10, chunks=((100, token("a")), (1000, token("b")), (0, FINISH + USAGE + DONE))
    )
    assert _record_of(script) == RequestRecord(
        cell=cell(),
        seq=7,
        row=107,
        session="session",
        prompt_tokens_planned=PROMPT_TOKENS,
        max_tokens=2,
        due_ns=0,
        outcome=Outcome.OK,
        sent_ns=1,
        headers_ns=11,
        first_token_ns=111,
        last_token_ns=1111,
        done_ns=1111,
        chunk_ns=(111, 1111),
        prompt_tokens=3,
        completion_tokens=2,
        cached_tokens=1,
        output_text="ab",
        status=200,
        attempts=1,
    )


def test_times_count_from_the_runs_origin() -> None:
    """All times of a record are relative to the cell's t0, the due time included."""

    async def main(clock: FakeClock) -> RequestRecord:
        await clock.sleep_until(1_000)
        return await _sent_alone(clock, answers(ttft_ns=50, tokens=1), due_ns=900, t0_ns=400)

    record = run_virtual(main)
    assert (record.due_ns, record.sent_ns, record.first_token_ns, record.chunk_ns) == (500, 600, 650, (650,))


@pytest.mark.parametrize(
    ("script", "outcome", "error"),
    [
        (Script(connects=False, trouble=REFUSED), Outcome.REFUSED, "connection refused"),
        (Script(chunks=((1, token("a")),), trouble=CUT), Outcome.TRUNCATED, "connection reset"),
        (Script(chunks=((1, token("a")),)), Outcome.TRUNCATED, "the stream ended without a finish_reason"),
        (Script(chunks=((1, token("a") + FINISH + DONE),), trouble=CUT), Outcome.OK, None),
        (Script(status=500, chunks=((1, b"dead"),)), Outcome.HTTP_ERROR, "dead"),
        (Script(status=500, chunks=((1, b"dead"),), trouble=CUT), Outcome.HTTP_ERROR, "dead"),
    ],
)
def test_how_a_request_ends(script: Script, outcome: Outcome, error: str | None) -> None:
    """What the server said decides; trouble on the wire explains what it left unsaid."""
    record = _record_of(script)
    assert (record.outcome, record.error) == (outcome, error)


def test_a_refused_request_was_not_sent() -> None:
    """Times of what did not happen are None."""
    record = _record_of(Script(connects=False, trouble=REFUSED, connect_ns=30))
    assert (record.sent_ns, record.headers_ns, record.first_token_ns, record.status) == (None, None, None, None)
    assert record.done_ns == 30


_SLOW_TOKENS = tuple((1_900 * MS, token("w")) for _ in range(20))


@pytest.mark.parametrize(
    ("script", "error", "ended_ms"),
    [
        (Script(connect_ns=60 * SECOND_NS), "connect_s: 5 s passed", 5_000),
        (Script(connect_ns=4_500 * MS, headers_after_ns=60 * SECOND_NS), "first_byte_s: 3 s passed", 7_500),
        (Script(headers_after_ns=1, chunks=((60 * SECOND_NS, token("w")),)), "first_byte_s: 3 s passed", 3_000),
        (
            Script(chunks=((100 * MS, token("w")), (60 * SECOND_NS, token("w")))),
            "between_bytes_s: 2 s passed",
            2_100,
        ),
        (Script(chunks=_SLOW_TOKENS), "total_s: 9 s passed", 9_000),
    ],
)
def test_each_limit_ends_the_request_on_time(script: Script, error: str, ended_ms: int) -> None:
    """A request that breaks a limit ends at that very moment as timeout, and its error names the limit."""
    record = _record_of(script)
    assert (record.outcome, record.error, record.done_ns) == (Outcome.TIMEOUT, error, ended_ms * MS)


def test_what_arrived_before_a_timeout_is_kept() -> None:
    """Tokens of a request that later timed out are in its record."""
    record = _record_of(Script(chunks=((100, token("w")), (60 * SECOND_NS, token("w")))))
    assert (record.status, record.first_token_ns, record.chunk_ns) == (200, 100, (100,))


def test_cancelling_reaches_watch_and_goes_on() -> None:
    """A cancelled request still delivers its record, and the task still ends as cancelled."""

    async def main(clock: FakeClock) -> tuple[list[RequestRecord], bool]:
        watched: list[RequestRecord] = []
        script = answers(ttft_ns=50, tokens=9, itl_ns=1_000)
        task = asyncio.create_task(_sent_alone(clock, script, watch=watched.append))
        await clock.sleep_until(60)
        task.cancel()
        await asyncio.wait([task])
        return watched, task.cancelled()

    watched, cancelled = run_virtual(main)
    assert cancelled
    assert [(r.outcome, r.first_token_ns, r.done_ns) for r in watched] == [(Outcome.CANCELLED, 50, 60)]


def test_watch_gets_what_is_returned() -> None:
    """The record that is returned is the one that was watched."""

    async def main(clock: FakeClock) -> tuple[RequestRecord, list[RequestRecord]]:
        watched: list[RequestRecord] = []
        return await _sent_alone(clock, answers(ttft_ns=1), watch=watched.append), watched

    record, watched = run_virtual(main)
    assert watched == [record]
