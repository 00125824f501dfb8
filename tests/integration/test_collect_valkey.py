"""The collectors against real Valkey servers and a real metrics page."""

import asyncio
import http.server
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from harness.collect import Sampler, Targets, flush_valkeys, read_valkeys, until_settled
from harness.errors import CollectError
from harness.records import ServerSample
from tests.fakes.valkey_servers import ValkeyServer, running

pytestmark = pytest.mark.integration


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ValkeyServer]]:
    """Two empty Valkeys."""
    with running(2, tmp_path) as started:
        yield started


@pytest.fixture
def metrics_url() -> Iterator[str]:
    """A page of two vLLM families, and one that nobody asked for."""
    body = b'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_preemptions_total{engine="0"} 1.0\nother 5.0\n'

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
        server.shutdown()
        thread.join()


def _urls(servers: Sequence[ValkeyServer]) -> list[str]:
    return [f"resp://{server.endpoint}" for server in servers]


def test_readings_count_what_others_did_and_none_of_our_own(servers: list[ValkeyServer]) -> None:
    """GETs, SETs, keys and bytes are those of the instance's clients, instance by instance; reading adds no GET."""
    urls = _urls(servers)
    before = asyncio.run(read_valkeys(urls))
    servers[0].ask("SET", "a", "x" * 10_000)
    servers[0].ask("GET", "a")
    servers[0].ask("GET", "missing")
    after = asyncio.run(read_valkeys(urls))
    (first_before, second_before), (first, second) = before, after
    assert first_before is not None
    assert second_before is not None
    assert first is not None
    assert second is not None
    assert (first.get_calls - first_before.get_calls, first.set_calls - first_before.set_calls) == (2, 1)
    assert (first.keys, second.keys) == (1, 0)
    assert (second.get_calls, second.set_calls) == (0, 0)
    assert (first.keyspace_hits, first.keyspace_misses, first.slowlog_entries) == (1, 1, 0)
    assert (first.get_usec or 0) + (first.set_usec or 0) >= 0
    assert first.get_p99_usec is not None
    assert (first.cpu_s or 0) > 0
    own_in = second.bytes_in - second_before.bytes_in
    assert first.bytes_in - first_before.bytes_in >= 10_000 + own_in
    assert first.bytes_out - first_before.bytes_out >= 10_000


def test_a_dead_instance_is_a_gap_among_living_ones(servers: list[ValkeyServer]) -> None:
    """One that does not answer is None in its own place."""
    servers[0].kill()
    first, second = asyncio.run(read_valkeys(_urls(servers)))
    assert first is None
    assert second is not None


def test_flushing_empties_every_instance(servers: list[ValkeyServer]) -> None:
    """After a flush no instance has a key."""
    for server in servers:
        server.ask("SET", "k", "v")
    asyncio.run(flush_valkeys(_urls(servers)))
    assert [server.key_count() for server in servers] == [0, 0]


def test_settled_means_that_nobody_writes(servers: list[ValkeyServer]) -> None:
    """While a client goes on storing there is no end to the wait; once it stops there is."""

    async def watch() -> None:
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                servers[1].ask("SET", "k", "v")
                time.sleep(0.01)

        writing = asyncio.create_task(asyncio.to_thread(write))
        try:
            with pytest.raises(CollectError) as caught:
                await until_settled(_urls(servers), timeout_s=0.2, poll_s=0.1)
        finally:
            stop.set()
            await writing
        assert _urls(servers)[1] in caught.value.where
        await until_settled(_urls(servers), timeout_s=60, poll_s=0.05)

    asyncio.run(watch())


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (the sampler has no event for what a test waits for)
        await asyncio.sleep(0.01)


def test_sampling_goes_on_whatever_dies(servers: list[ValkeyServer], metrics_url: str) -> None:
    """Every source is sampled; one that dies becomes a gap, counted, and the others go on."""
    seen: list[ServerSample] = []
    targets = Targets(
        arm="valkey-2",
        repeat=1,
        vllm_metrics_urls=(metrics_url,),
        lmcache_metrics_urls=(f"{metrics_url.rsplit(':', 1)[0]}:1/metrics",),
        valkey_urls=tuple(_urls(servers)),
        services={"client": os.getpid()},
    )

    async def run() -> Sampler:
        ticks = iter(range(10**9))
        async with Sampler(targets, seen.extend, now_ns=lambda: next(ticks), interval_s=0.01) as sampler:
            await _until(lambda: {"valkey-0", "valkey-1"} <= {sample.instance for sample in seen})
            servers[0].kill()
            await _until(lambda: sampler.gaps["valkey-0"] >= 2)
        return sampler

    sampler = asyncio.run(run())
    assert {"vllm", "valkey", "host"} == {sample.source for sample in seen}
    assert {(s.name, s.value) for s in seen if s.source == "vllm"} == {
        ("vllm:num_requests_running", 3.0),
        ("vllm:num_preemptions_total", 1.0),
    }
    assert {sample.labels["engine"] for sample in seen if sample.source == "vllm"} == {"0"}
    host = {sample.name for sample in seen if sample.source == "host"}
    assert {"rss_bytes", "cpu_percent"} <= host <= {"rss_bytes", "cpu_percent", "process_cpu_percent"}
    assert set(sampler.gaps) == {"lmcache", "valkey-0"}
    assert {(sample.arm, sample.repeat) for sample in seen} == {("valkey-2", 1)}
    for name in ("valkey-0", "valkey-1"):
        times = [sample.t_ns for sample in seen if sample.instance == name and sample.name == "get_calls"]
        assert times == sorted(set(times))


def test_a_failing_sink_is_not_swallowed(servers: list[ValkeyServer]) -> None:
    """What the sink raises comes out at the end of the context: samples are not lost in silence."""

    def full(samples: Sequence[ServerSample]) -> None:
        raise OSError("disk full")

    async def run() -> None:
        async with Sampler(Targets("a", 0, valkey_urls=tuple(_urls(servers))), full, now_ns=lambda: 0):
            await asyncio.sleep(0)

    with pytest.raises(OSError, match="disk full"):
        asyncio.run(run())


def test_a_password_is_taken_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL names the variable; one that is not set is an error that names it, and no answer is a gap."""
    server = ValkeyServer(tmp_path)
    server.start()
    try:
        server.ask("CONFIG", "SET", "requirepass", "secret")
        url = f"valkey://{server.endpoint}?password_env=KVR_PASSWORD"
        monkeypatch.setenv("KVR_PASSWORD", "secret")
        (reading,) = asyncio.run(read_valkeys([url]))
        assert reading is not None
        assert asyncio.run(read_valkeys([f"valkey://{server.endpoint}"])) == (None,)
        monkeypatch.delenv("KVR_PASSWORD")
        with pytest.raises(CollectError, match="KVR_PASSWORD is not set"):
            asyncio.run(read_valkeys([url]))
    finally:
        server.kill()
