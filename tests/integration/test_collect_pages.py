"""The sampler against metrics pages over HTTP: real ones, and what is not one."""

import asyncio
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import make_wsgi_app

from harness.collect import Sampler, Targets
from harness.records import ServerSample

pytestmark = pytest.mark.integration


class _Silent(WSGIRequestHandler):
    asked: list[str] = []  # noqa: RUF012 - one list for one test, emptied by it

    def log_message(self, *_: object) -> None:
        self.asked.append(self.path)


@contextmanager
def _served(server: http.server.HTTPServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _sample(url: str, rounds: int, source: str = "vllm") -> tuple[list[ServerSample], Sampler]:
    seen: list[ServerSample] = []
    target = {
        "vllm": Targets("a", 0, vllm_metrics_urls=(url,)),
        "lmcache": Targets("a", 0, lmcache_metrics_urls=(url,)),
        "inside": Targets("a", 0, lmcache_metrics_urls=(url,), lmcache_inside_urls=(url,)),
    }

    async def run() -> Sampler:
        times = 0

        def sink(samples: object) -> None:
            nonlocal times
            times += 1
            seen.extend(samples)  # type: ignore[arg-type]

        async with Sampler(target[source], sink, now_ns=lambda: 0, interval_s=0.01) as sampler:
            while times < rounds:  # noqa: ASYNC110 - the sampler has no event for what a test waits for
                await asyncio.sleep(0.01)
        return sampler

    return seen, asyncio.run(run())


def test_after_the_first_look_only_the_known_series_are_asked_for() -> None:
    """A server of many series is asked for few: each round still has all that are known, and only those."""
    registry = CollectorRegistry(auto_describe=True)
    Gauge("vllm:num_requests_running", "known", ["engine"], registry=registry).labels("0").set(3)
    Counter("vllm:num_preemptions", "known", registry=registry).inc(2)
    Gauge("python_info", "not known", registry=registry).set(1)
    _Silent.asked.clear()
    with _served(make_server("127.0.0.1", 0, make_wsgi_app(registry), handler_class=_Silent)) as url:
        seen, sampler = _sample(url, rounds=3)
    assert sampler.gaps == {}
    assert {(one.name, one.value) for one in seen} == {
        ("vllm:num_requests_running", 3.0),
        ("vllm:num_preemptions_total", 2.0),
    }
    assert len(seen) >= 6
    assert _Silent.asked[0] == "/metrics"
    assert all("name%5B%5D=vllm%3Anum_requests_running" in path for path in _Silent.asked[1:])


def test_lmcache_inside_the_engine_is_on_its_page() -> None:
    """Its series are a source of their own, and the page is then read whole, since they have no fixed names."""
    registry = CollectorRegistry(auto_describe=True)
    Gauge("vllm:num_requests_running", "known", registry=registry).set(3)
    Counter("lmcache:num_hit_tokens", "known", registry=registry).inc(256)
    with _served(make_server("127.0.0.1", 0, make_wsgi_app(registry), handler_class=_Silent)) as url:
        seen, _ = _sample(url, rounds=2)
    assert {(one.source, one.instance, one.name) for one in seen} == {
        ("vllm", "vllm", "vllm:num_requests_running"),
        ("lmcache", "vllm", "lmcache:num_hit_tokens_total"),
    }


def test_all_of_lmcaches_series_are_sampled_but_no_bucket() -> None:
    """The multiprocess server's page, whatever a version of it has."""
    registry = CollectorRegistry(auto_describe=True)
    Counter("lmcache_mp_lookup_hit_tokens", "", ["model_name"], registry=registry).labels("m").inc(5)
    Counter("python_gc", "", registry=registry).inc()
    with _served(make_server("127.0.0.1", 0, make_wsgi_app(registry), handler_class=_Silent)) as url:
        seen, _ = _sample(url, rounds=1, source="lmcache")
    assert {(one.name, one.value, one.labels["model_name"]) for one in seen} == {
        ("lmcache_mp_lookup_hit_tokens_total", 5.0, "m")
    }


def test_pages_that_ranks_serve_are_asked_less_often() -> None:
    """Answering takes the engine's time: one round of four, beginning with the first."""
    registry = CollectorRegistry(auto_describe=True)
    Counter("lmcache:num_hit_tokens", "", registry=registry).inc(256)
    with _served(make_server("127.0.0.1", 0, make_wsgi_app(registry), handler_class=_Silent)) as url:
        seen, sampler = _sample(url, rounds=9, source="inside")
    rounds, inside = (sum(one.instance == name for one in seen) for name in ("lmcache", "lmcache-1"))
    assert rounds >= 9
    assert inside == (rounds + 3) // 4
    assert sampler.gaps == {}


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (404, b"not here", "404"),
        (200, b"<!DOCTYPE html><html><body>{}</body></html>", "none of the series"),
        (200, b"", "none of the series"),
        (200, b'vllm:num_requests_running{engine="0" 3\n', "cannot be read"),
    ],
)
def test_what_is_no_metrics_page_is_a_gap_with_its_reason(status: int, body: bytes, why: str) -> None:
    """A wrong path, a web page, nothing, or half a line: no sample, no zero, no exception, and the reason is kept."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with _served(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)) as url:
        seen, sampler = _sample(url, rounds=2)
    assert seen == []
    assert sampler.gaps["vllm"] >= 2
    assert why in sampler.reasons["vllm"]
