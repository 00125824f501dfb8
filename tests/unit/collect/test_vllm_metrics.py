"""harness.collect.vllm_metrics: counters, gauges and idleness of vLLM."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.collect import CacheConfig, parse_cache_config, parse_counters, parse_gauges, until_idle
from harness.errors import CollectError
from harness.records import PassCounters

URL = "http://127.0.0.1:1/metrics"
TOKENS = st.integers(0, 10**12)
LABELS = 'model_name="m"'


def _page(running: int, waiting: int, hits: int) -> str:
    return (
        f'vllm:num_requests_running{{engine="0",{LABELS}}} {running}.0\n'
        f'vllm:num_requests_waiting{{engine="0",{LABELS}}} {waiting}.0\n'
        f'vllm:prefix_cache_hits_total{{engine="0",{LABELS}}} {hits}.0\n'
    )


@settings(deadline=None)
@given(st.lists(st.tuples(TOKENS, TOKENS, TOKENS), min_size=1, max_size=3))
def test_counters_are_summed_over_engines(engines: list[tuple[int, int, int]]) -> None:
    """Each family, and each source of prompt tokens, is the sum over the engines of a data-parallel server."""
    text = "# TYPE vllm:prefix_cache_queries counter\n"
    for engine, (queries, compute, external) in enumerate(engines):
        labels = f'engine="{engine}",{LABELS}'
        text += f"vllm:prefix_cache_queries_total{{{labels}}} {queries}\n"
        text += f"vllm:prefix_cache_queries_created{{{labels}}} 1.7e9\n"
        text += f'vllm:prompt_tokens_by_source_total{{{labels},source="local_compute"}} {compute}\n'
        text += f'vllm:prompt_tokens_by_source_total{{{labels},source="external_kv_transfer"}} {external}\n'
        text += f'vllm:prompt_tokens_by_source_total{{{labels},source="something_new"}} 7\n'
    assert parse_counters(text) == PassCounters(
        prefix_cache_queries=sum(engine[0] for engine in engines),
        prompt_tokens_local_compute=sum(engine[1] for engine in engines),
        prompt_tokens_external_kv_transfer=sum(engine[2] for engine in engines),
    )


def test_a_family_that_is_not_there_is_missing_not_zero() -> None:
    """A page without a family gives None for it."""
    assert parse_counters("") == PassCounters()
    assert parse_gauges("") == {}
    assert parse_cache_config("") == CacheConfig()


def test_gauges_add_requests_and_take_the_fullest_cache() -> None:
    """Requests of several engines add up; the usage is that of the engine that will evict first."""
    text = _page(2, 0, 0) + _page(3, 1, 0).replace('engine="0"', 'engine="1"')
    text += 'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.75\n'
    assert parse_gauges(text) == {
        "num_requests_running": 5.0,
        "num_requests_waiting": 1.0,
        "kv_cache_usage_perc": 0.75,
    }


def test_the_cache_is_as_vllm_reports_it() -> None:
    """Block and size are labels of the info family, the size in whole blocks; a label that is no number is none."""
    line = 'vllm:cache_config_info{block_size="128",engine="%s",num_gpu_blocks="%s"%s} 1.0\n'
    size = ',kv_cache_size_tokens="%s"'
    assert parse_cache_config(line % ("0", "44", size % "5627")) == CacheConfig(128, 5504)
    assert parse_cache_config(line % ("0", "44", size % "None")) == CacheConfig(128, 5632)
    assert parse_cache_config(line % ("0", "44", "")) == CacheConfig(128, 5632)
    assert parse_cache_config(line % ("0", "None", "")) == CacheConfig(128, None)
    two = line % ("0", "44", "") + line % ("1", "33", "")
    assert parse_cache_config(two) == CacheConfig(128, 4224)


def _wait(answers: Iterator[httpx.Response], timeout_s: float) -> PassCounters:
    async def run() -> PassCounters:
        transport = httpx.MockTransport(lambda request: next(answers))
        async with httpx.AsyncClient(transport=transport) as client:
            return await until_idle(client, URL, timeout_s=timeout_s, poll_s=0.001)

    return asyncio.run(run())


def test_idle_is_two_equal_readings_with_nothing_running() -> None:
    """Busy readings, a failed one, and counters that still move are waited out; the settled counters come back."""
    pages = [_page(1, 0, 5), _page(0, 0, 5), _page(0, 0, 6), None, _page(0, 0, 6), _page(0, 1, 6), _page(0, 0, 7)]
    answers = [httpx.Response(503) if page is None else httpx.Response(200, text=page) for page in pages]
    rest = iter([*answers, httpx.Response(200, text=_page(0, 0, 7))])
    assert _wait(rest, timeout_s=60) == PassCounters(prefix_cache_hits=7)
    assert next(rest, None) is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(httpx.Response(404), "404"), (httpx.Response(200, text="<html>up</html>"), "None running, None waiting")],
)
def test_what_is_no_metrics_page_is_not_waited_for(answer: httpx.Response, reason: str) -> None:
    """A wrong path or somebody's web page will not become one: an error soon, whatever the time given."""
    with pytest.raises(CollectError, match="no metrics page of vLLM") as caught:
        _wait(iter(lambda: answer, None), timeout_s=10**6)
    assert reason in caught.value.what
    assert caught.value.where == URL


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(httpx.Response(200, text=_page(2, 1, 5)), "2.0 running, 1.0 waiting"), (httpx.Response(503), "503")],
)
def test_an_engine_that_is_never_idle_is_an_error_that_says_why(answer: httpx.Response, reason: str) -> None:
    """After the time given the error names the address and what was still so."""
    with pytest.raises(CollectError) as caught:
        _wait(iter(lambda: answer, None), timeout_s=0.02)
    assert reason in caught.value.what
    assert caught.value.where == URL
