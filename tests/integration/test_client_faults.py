"""A server that misbehaves on purpose: one row each, the right outcome, the reason kept, the others undisturbed."""

import asyncio
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from harness.client import Carriage, Http, MonotonicClock, Route, Target, Timeouts, connected, replay
from harness.client.target import Endpoint
from harness.records import Outcome, RequestRecord
from harness.schedule import PassPlan
from tests.fakes.null_server import Behaviour, NullServer
from tests.fakes.passes import cell, closed_loop, open_loop, planned
from tests.fakes.tls import self_signed, server_context

pytestmark = pytest.mark.integration

PATIENT = Timeouts(connect_s=60, first_byte_s=60, between_bytes_s=60, total_s=60)
BAD = 2
"""The request that meets the fault; four others do not."""


async def _send(target: Target, plan: PassPlan) -> tuple[RequestRecord, ...]:
    clock = MonotonicClock()
    async with connected(target, clock) as transport:
        return await replay(plan, cell(), carriage=Carriage(transport, clock, target.timeouts, target.retries))


def _five(mode: str, http: Http = Http.HTTPTOOLS, timeouts: Timeouts = PATIENT) -> tuple[RequestRecord, ...]:
    """Five requests at once, of which the server mistreats one."""

    async def main() -> tuple[RequestRecord, ...]:
        async with NullServer(Behaviour(ttft_s=0.01, mode=mode, only_seq=BAD)) as server:
            return await _send(Target((server.url,), http=http, timeouts=timeouts), open_loop([0] * 5))

    return asyncio.run(main())


FAULTS = [
    ("reset", Outcome.TRUNCATED, None, "before it answered|reset|disconnected"),
    ("reset_in_headers", Outcome.TRUNCATED, None, "in the middle of its headers|reset|disconnected"),
    ("reset_in_stream", Outcome.TRUNCATED, 200, "in the middle of its response|reset|not completed"),
    ("truncate", Outcome.TRUNCATED, 200, "in the middle of its response|not completed"),
    ("http_400", Outcome.HTTP_ERROR, 400, "sorry: 400"),
    ("http_429", Outcome.HTTP_ERROR, 429, "sorry: 429"),
    ("http_500", Outcome.HTTP_ERROR, 500, "sorry: 500"),
    ("http_503", Outcome.HTTP_ERROR, 503, "sorry: 503"),
    ("error_event", Outcome.HTTP_ERROR, 200, "load failed"),
    ("not_http", Outcome.HTTP_ERROR, None, "not HTTP|Bad status line"),
    ("slow_reader", Outcome.OK, 200, "^$"),
    ("until_close", Outcome.OK, 200, "^$"),
]


@pytest.mark.parametrize("http", Http)
@pytest.mark.parametrize(("mode", "outcome", "status", "error"), FAULTS)
def test_a_fault_costs_its_own_request_only(
    mode: str, outcome: Outcome, status: int | None, error: str, http: Http
) -> None:
    """The mistreated request has its row with what happened; the four beside it are answered."""
    records = _five(mode, http)
    bad = records[BAD]
    assert (bad.outcome, bad.status) == (outcome, status)
    assert re.search(error, bad.error or "")
    assert [record.outcome for record in records if record.seq != BAD] == [Outcome.OK] * 4


def test_garbage_in_a_stream_ends_it() -> None:
    """Bytes that are not HTTP in mid-stream are an error of the server's, and the token before them is kept."""
    bad = _five("garbage_in_stream")[BAD]
    assert (bad.outcome, bad.status, len(bad.chunk_ns)) == (Outcome.HTTP_ERROR, 200, 1)
    assert "not HTTP" in (bad.error or "")


@pytest.mark.parametrize(
    ("mode", "limit"),
    [("hang", "first_byte_s"), ("silent_200", "first_byte_s"), ("hang_mid_stream", "between_bytes_s")],
)
def test_silence_ends_as_a_timeout_that_names_its_limit(mode: str, limit: str) -> None:
    """A server that says nothing, or nothing more, costs one request its limit; the status it gave is kept."""
    records = _five(mode, timeouts=replace(PATIENT, **{limit: 1.0}))
    bad = records[BAD]
    assert (bad.outcome, bad.status) == (Outcome.TIMEOUT, None if mode == "hang" else 200)
    assert (bad.error or "").startswith(limit)
    assert [record.outcome for record in records if record.seq != BAD] == [Outcome.OK] * 4


def test_a_server_that_restarts_in_mid_run() -> None:
    """What was in flight is truncated, what was due while it was down is refused, and afterwards all is well again."""

    async def main() -> list[RequestRecord]:
        clock = MonotonicClock()
        server = NullServer(Behaviour(mode="hang_mid_stream"))
        await server.__aenter__()
        async with connected(Target((server.url,)), clock) as transport:

            async def one(seq: int) -> RequestRecord:
                plan = PassPlan("replay", (planned(seq, 0),), None)
                return (await replay(plan, cell(), carriage=Carriage(transport, clock, PATIENT)))[0]

            flying = asyncio.create_task(one(0))
            while not server.arrivals:  # noqa: ASYNC110 - a server's list has no event to wait for
                await asyncio.sleep(0.005)
            await server.__aexit__(None, None, None)
            records = [await flying, await one(1)]
            async with NullServer(port=server.port):
                return [*records, await one(2)]

    records = asyncio.run(main())
    assert [record.outcome for record in records] == [Outcome.TRUNCATED, Outcome.REFUSED, Outcome.OK]


def test_a_retry_is_counted_and_the_row_is_that_of_the_last_send() -> None:
    """A server that turns a request away twice gets it a third time, if so asked; the record says three attempts."""

    async def main(retries: int) -> RequestRecord:
        async with NullServer(Behaviour(mode="http_503", only_first=2)) as server:
            return (await _send(Target((server.url,), retries=retries, timeouts=PATIENT), open_loop([0])))[0]

    unasked, asked = asyncio.run(main(0)), asyncio.run(main(5))
    assert (unasked.outcome, unasked.attempts) == (Outcome.HTTP_ERROR, 1)
    assert (asked.outcome, asked.attempts) == (Outcome.OK, 3)
    assert asked.sent_ns is not None
    assert asked.sent_ns - asked.due_ns > 1_000_000_000  # it waited 0.5 s and 1 s between


def test_connections_are_open_before_their_requests_are_due() -> None:
    """What is prepared is open at the server before anything is sent, and a burst is then answered whole."""
    burst = 20

    async def main() -> tuple[list[str], tuple[RequestRecord, ...]]:
        clock = MonotonicClock()
        async with NullServer() as server, connected(Target((server.url,)), clock) as transport:
            await transport.prepare(burst)
            while server.accepted < burst:  # noqa: ASYNC110 - a count has no event to wait for
                await asyncio.sleep(0.005)
            before = [arrival.request_id for arrival in server.arrivals]
            return before, await replay(open_loop([0] * burst), cell(), carriage=Carriage(transport, clock, PATIENT))

    arrived_before, records = asyncio.run(main())
    assert arrived_before == []
    assert {record.outcome for record in records} == {Outcome.OK}


@pytest.mark.parametrize("route", Route)
def test_several_servers_share_the_load(route: Route) -> None:
    """In turn, by session or by prompt: every request is at exactly one server, and each rule is kept."""
    requests = tuple(replace(planned(seq, 0), session=f"s{seq % 6}") for seq in range(24))

    async def main() -> list[list[int]]:
        async with NullServer() as one, NullServer() as two:
            await _send(Target((one.url, two.url), route=route, timeouts=PATIENT), PassPlan("replay", requests, None))
            return [
                sorted(int(arrival.request_id.rpartition("-")[2]) for arrival in server.arrivals)
                for server in (one, two)
            ]

    at_one, at_two = asyncio.run(main())
    assert sorted(at_one + at_two) == list(range(24))
    if route is Route.ROUND_ROBIN:
        assert at_one == list(range(0, 24, 2))
    if route is Route.SESSION:
        assert not {seq % 6 for seq in at_one} & {seq % 6 for seq in at_two}


def test_a_chat_is_a_chat() -> None:
    """The chat endpoint is asked where the target says so."""

    async def main() -> tuple[RequestRecord, ...]:
        async with NullServer() as server:
            target = Target((server.url + "/some/prefix/..",), endpoint=Endpoint.CHAT, timeouts=PATIENT)
            lost = await _send(target, open_loop([0]))
            return (*lost, *await _send(replace(target, urls=(server.url,)), closed_loop(1, 1)))

    under_a_prefix, plain = asyncio.run(main())
    assert under_a_prefix.status == 404
    assert plain.outcome is Outcome.OK


@pytest.mark.parametrize("http", Http)
def test_tls(tmp_path: Path, http: Http) -> None:
    """A server whose certificate is trusted is measured; one that nobody vouches for is refused, unless told not to."""
    certificate, key = self_signed(tmp_path)
    context = server_context(certificate, key)

    async def main() -> list[RequestRecord]:
        async with NullServer(tls=context) as server:
            trusting = Target((server.url,), http=http, ca_file=str(certificate), timeouts=PATIENT)
            targets = (trusting, replace(trusting, ca_file=None), replace(trusting, ca_file=None, verify=False))
            return [(await _send(target, open_loop([0])))[0] for target in targets]

    trusted, unknown, unchecked = asyncio.run(main())
    assert [trusted.outcome, unknown.outcome, unchecked.outcome] == [Outcome.OK, Outcome.REFUSED, Outcome.OK]
    assert "certificate verify failed" in (unknown.error or "").lower()


def test_one_server_that_is_gone_costs_its_own_share_only() -> None:
    """Of two servers one does not listen: every other request is refused, the rest is answered."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{free.getsockname()[1]}"

    async def main() -> tuple[RequestRecord, ...]:
        async with NullServer() as server:
            return await _send(Target((server.url, gone), timeouts=PATIENT), open_loop([0] * 6))

    assert [record.outcome for record in asyncio.run(main())] == [Outcome.OK, Outcome.REFUSED] * 3
