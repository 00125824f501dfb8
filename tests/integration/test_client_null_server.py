"""The client over real TCP, against a server whose answers are known."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.client import Carriage, Http, MonotonicClock, Target, Timeouts, connected, replay
from harness.records import Outcome, RequestRecord
from harness.schedule import PassPlan
from tests.fakes.null_server import Behaviour, NullServer
from tests.fakes.passes import PROMPT_TOKENS, cell, closed_loop, open_loop

pytestmark = pytest.mark.integration

PATIENT = Timeouts(connect_s=60, first_byte_s=60, between_bytes_s=60, total_s=60)


async def _send(
    url: str,
    plan: PassPlan,
    timeouts: Timeouts = PATIENT,
    stop: asyncio.Event | None = None,
    api_key_env: str | None = None,
    http: Http = Http.HTTPTOOLS,
) -> tuple[RequestRecord, ...]:
    clock = MonotonicClock()
    async with connected(Target((url,), http=http, api_key_env=api_key_env), clock) as transport:
        return await replay(plan, cell(), carriage=Carriage(transport, clock, timeouts), stop=stop)


def _against(behaviour: Behaviour, plan: PassPlan, timeouts: Timeouts = PATIENT) -> tuple[RequestRecord, NullServer]:
    """The record of a pass's first request, and the server as it was left."""

    async def main() -> tuple[RequestRecord, NullServer]:
        async with NullServer(behaviour) as server:
            return (await _send(server.url, plan, timeouts))[0], server

    return asyncio.run(main())


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - a server's list has no event to wait for
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("split_bytes", [0, 1, 7])
def test_a_whole_answer_is_ok(split_bytes: int) -> None:
    """Tokens, counts and times in the right order, however TCP delivers the bytes."""
    behaviour = Behaviour(ttft_s=0.05, itl_s=0.02, split_bytes=split_bytes, cached_tokens=2)
    record, server = _against(behaviour, open_loop([0], max_tokens=3))
    assert (record.outcome, record.status, record.error) == (Outcome.OK, 200, None)
    assert (record.prompt_tokens, record.completion_tokens, record.cached_tokens) == (PROMPT_TOKENS, 3, 2)
    assert len(record.chunk_ns) == 3
    arrival = server.arrivals[0]
    happened = [
        record.due_ns,
        record.sent_ns,
        arrival.arrived_ns,
        arrival.first_write_ns,
        record.first_token_ns,
        record.last_token_ns,
        record.done_ns,
    ]
    assert happened == sorted(happened, key=lambda t_ns: t_ns or 0)


@pytest.mark.parametrize("http", Http)
def test_the_server_sees_the_id_the_key_and_no_compression(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request carries its X-Request-Id and the API key, and asks for plain bytes."""
    monkeypatch.setenv("KVREPLAY_TEST_KEY", "100% secret")

    async def main() -> list[dict[str, str]]:
        async with NullServer() as server:
            await _send(server.url + "/", open_loop([0]), api_key_env="KVREPLAY_TEST_KEY", http=http)
            return [arrival.headers for arrival in server.arrivals]

    (headers,) = asyncio.run(main())
    assert headers["x-request-id"] == cell().request_id(0)
    assert headers["authorization"] == "Bearer 100% secret"
    assert headers["accept-encoding"] == "identity"
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize("http", Http)
@pytest.mark.parametrize(
    ("mode", "outcome", "status", "error"),
    [
        ("http_500", Outcome.HTTP_ERROR, 500, "sorry: 500"),
        ("error_event", Outcome.HTTP_ERROR, 200, "load failed"),
        ("truncate", Outcome.TRUNCATED, 200, "not completed|in the middle of its response"),
        ("disconnect", Outcome.TRUNCATED, None, "disconnected|before it answered"),
        ("not_http", Outcome.HTTP_ERROR, None, "Bad status line|not HTTP"),
    ],
)
def test_each_way_to_fail_is_an_outcome(
    mode: str, outcome: Outcome, status: int | None, error: str, http: Http
) -> None:
    """A failure is a record that says how it failed, and the next request is sent all the same."""

    async def main() -> tuple[RequestRecord, ...]:
        async with NullServer(Behaviour(mode=mode)) as server:
            return await _send(server.url, closed_loop(2, 1), http=http)

    records = asyncio.run(main())
    assert [(record.outcome, record.status) for record in records] == [(outcome, status)] * 2
    assert re.search(error, records[0].error or "")


@pytest.mark.parametrize(
    ("mode", "impatient", "limit", "tokens_seen"),
    [
        ("hang", replace(PATIENT, first_byte_s=0.2), "first_byte_s", 0),
        ("hang_mid_stream", replace(PATIENT, between_bytes_s=0.2), "between_bytes_s", 1),
        ("hang", replace(PATIENT, total_s=0.2), "total_s", 0),
    ],
)
def test_a_hang_is_a_timeout(mode: str, impatient: Timeouts, limit: str, tokens_seen: int) -> None:
    """A server that goes silent ends the request as timeout, by name, with what had arrived."""
    record, _ = _against(Behaviour(mode=mode), open_loop([0]), impatient)
    assert (record.outcome, len(record.chunk_ns)) == (Outcome.TIMEOUT, tokens_seen)
    assert (record.error or "").startswith(limit)


def test_a_closed_port_is_refused() -> None:
    """Nobody listening is refused: nothing was sent, and the error names the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    records = asyncio.run(_send(f"http://127.0.0.1:{port}", open_loop([0, 1])))
    assert [(record.outcome, record.sent_ns) for record in records] == [(Outcome.REFUSED, None)] * 2
    assert str(port) in (records[0].error or "")


def test_a_server_that_never_accepts_is_a_connect_timeout() -> None:
    """A connection that is not made in time ends as timeout, by name."""
    with socket.socket() as full, socket.socket() as filler:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        filler.connect(full.getsockname())
        with socket.socket() as waiting:
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
            url = f"http://127.0.0.1:{full.getsockname()[1]}"
            (record,) = asyncio.run(_send(url, open_loop([0]), replace(PATIENT, connect_s=0.2)))
    assert (record.outcome, record.sent_ns) == (Outcome.TIMEOUT, None)
    assert (record.error or "").startswith("connect_s")


def test_no_limit_on_requests_in_flight_and_a_stop_frees_the_server() -> None:
    """150 requests are all at the server before one is answered; a stop closes every connection."""
    due_ns = MonotonicClock().now_ns()

    async def main() -> tuple[tuple[RequestRecord, ...], int]:
        stop, clock = asyncio.Event(), MonotonicClock()
        async with NullServer(Behaviour(itl_s=0.01)) as server, connected(Target((server.url,)), clock) as transport:
            plan = open_loop([0] * 150 + [due_ns], max_tokens=1_000_000)
            pass_ = asyncio.create_task(replay(plan, cell(), carriage=Carriage(transport, clock, PATIENT), stop=stop))
            await _until(lambda: len(server.arrivals) == 150)
            stop.set()
            records = await pass_
            await _until(lambda: server.open_connections == 0)
            return records, len(server.arrivals)

    records, arrivals = asyncio.run(main())
    assert [record.outcome for record in records] == [Outcome.CANCELLED] * 150 + [Outcome.NOT_SENT]
    assert arrivals == 150


@pytest.mark.parametrize("http", Http)
def test_connections_are_reused(http: Http) -> None:
    """Requests one after the other share one connection, and a hundred of them too."""

    async def main() -> int:
        clock = MonotonicClock()
        async with NullServer() as server, connected(Target((server.url,), http=http), clock) as transport:
            await replay(closed_loop(100, 1), cell(), carriage=Carriage(transport, clock, PATIENT))
            return server.accepted

    assert asyncio.run(main()) == 1


def test_a_long_prompt_is_sent_whole_and_quietly() -> None:
    """A body over a mebibyte (a prompt of 200,000 tokens) arrives in full, without a warning from the HTTP library."""
    request = open_loop([0]).requests[0]
    padded = replace(request, body=request.body[:-1] + b', "user": "' + b"x" * (2 << 20) + b'"}')
    record, server = _against(Behaviour(), PassPlan("replay", (padded,), None))
    assert record.outcome is Outcome.OK
    assert server.arrivals[0].headers["content-length"] == str(len(padded.body))


def test_a_server_in_another_process() -> None:
    """The null server runs by itself too, with the same knobs, and its time to first token is a floor of ours."""
    script = Path(__file__).parents[1] / "fakes" / "null_server.py"
    ttft_s = 0.1
    with subprocess.Popen(
        [sys.executable, str(script), "--ttft-s", str(ttft_s), "--split-bytes", "5"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            records = asyncio.run(_send(process.stdout.readline().strip(), open_loop([0, 1, 2])))
        finally:
            os.kill(process.pid, signal.SIGTERM)
    assert process.returncode == 0
    assert [record.outcome for record in records] == [Outcome.OK] * 3
    for record in records:
        assert record.first_token_ns is not None
        assert record.sent_ns is not None
        assert record.first_token_ns - record.sent_ns >= ttft_s * 1e9
