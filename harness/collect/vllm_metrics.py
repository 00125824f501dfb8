"""What vLLM's /metrics says: token counters, gauges, the size of its KV cache, and whether it is idle.

Names as in vLLM 0.31 (vllm/v1/metrics/loggers.py). Every family has a label per engine; counters are summed over them.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

import httpx

from harness.collect.exposition import samples
from harness.errors import CollectError
from harness.records import PassCounters

_BY_SOURCE = "vllm:prompt_tokens_by_source_total"
_SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
_COUNTERS = {
    "vllm:prefix_cache_queries_total": "prefix_cache_queries",
    "vllm:prefix_cache_hits_total": "prefix_cache_hits",
    "vllm:external_prefix_cache_queries_total": "external_prefix_cache_queries",
    "vllm:external_prefix_cache_hits_total": "external_prefix_cache_hits",
}
_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_USAGE = "vllm:kv_cache_usage_perc"
_CONFIG = "vllm:cache_config_info"

_WRONG_PAGES = 10  # in a row: not one that a proxy answers with while the server restarts

_HISTOGRAMS = (
    *("vllm:time_to_first_token_seconds", "vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds"),
    *("vllm:request_decode_time_seconds", "vllm:request_inference_time_seconds", "vllm:e2e_request_latency_seconds"),
    *("vllm:inter_token_latency_seconds", "vllm:request_prefill_kv_computed_tokens", "vllm:iteration_tokens_total"),
    *("vllm:kv_block_lifetime_seconds", "vllm:kv_block_idle_before_evict_seconds", "vllm:kv_block_reuse_gap_seconds"),
    "vllm:lmcache_mp_lookup_duration_seconds",
)

SERIES = frozenset(
    {
        *_COUNTERS,
        _BY_SOURCE,
        _RUNNING,
        _WAITING,
        _USAGE,
        "vllm:num_requests_waiting_by_reason",
        "vllm:num_preemptions_total",
        "vllm:prompt_tokens_total",
        "vllm:prompt_tokens_cached_total",
        "vllm:generation_tokens_total",
        "vllm:request_success_total",
        "vllm:corrupted_requests_total",
        *(f"{name}_{part}" for name in _HISTOGRAMS for part in ("sum", "count")),
        *(f"{name}_bucket" for name in _HISTOGRAMS[:3]),
    }
)
"""What is sampled: counters, gauges, the sum and count of histograms, and the buckets of those that TTFT is made of."""


def parse_counters(text: str) -> PassCounters:
    """Tokens since the engine started, summed over engines; None for a family that is not there. Valkey's are None.

    Raises CollectError on a malformed line.
    """
    totals: dict[str, float] = {}
    for sample in samples(text, {*_COUNTERS, _BY_SOURCE}):
        if sample.name != _BY_SOURCE:
            name = _COUNTERS[sample.name]
        elif sample.labels.get("source") in _SOURCES:
            name = f"prompt_tokens_{sample.labels['source']}"
        else:
            continue
        totals[name] = totals.get(name, 0.0) + sample.value
    return PassCounters(**{name: int(total) for name, total in totals.items()})


def parse_gauges(text: str) -> dict[str, float]:
    """`num_requests_running` and `_waiting` summed over engines, `kv_cache_usage_perc` (0..1) of the fullest engine.

    A gauge that is not there has no key. Raises CollectError on a malformed line.
    """
    gauges: dict[str, float] = {}
    for sample in samples(text, {_RUNNING, _WAITING, _USAGE}):
        name = sample.name.removeprefix("vllm:")
        before = gauges.get(name, 0.0)
        gauges[name] = max(before, sample.value) if sample.name == _USAGE else before + sample.value
    return gauges


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """The prefix cache of one engine (the smallest, with several), null block included; None: it does not say."""

    block_tokens: int | None = None
    size_tokens: int | None = None


def parse_cache_config(text: str) -> CacheConfig:
    """What vLLM says of its KV cache: whole blocks. Versions without `kv_cache_size_tokens` say how many blocks it has.

    Raises CollectError on a malformed line.
    """
    told = []
    for sample in samples(text, {_CONFIG}):
        block, blocks, size = (
            int(value) if (value := sample.labels.get(name, "")).isdecimal() else None
            for name in ("block_size", "num_gpu_blocks", "kv_cache_size_tokens")
        )
        if size is None and block is not None and blocks is not None:
            size = block * blocks
        told.append(CacheConfig(block, size if not block or size is None else size // block * block))
    return min(told, key=lambda one: one.size_tokens or 0, default=CacheConfig())


async def read_vllm(client: httpx.AsyncClient, metrics_url: str, names: Collection[str] = ()) -> str:
    """The metrics page at `metrics_url`, only `names` of it if any are given and the server knows how to leave out.

    A whole page costs vLLM's API server about 20 ms. Raises CollectError if it does not answer with one.
    """
    try:
        response = await client.get(metrics_url, params=[("name[]", name) for name in names] or None)
        response.raise_for_status()
    except httpx.HTTPError as error:
        raise CollectError(
            f"no metrics: {error or type(error).__name__}", where=metrics_url, remedy="see the server's log"
        ) from error
    return response.text


def _no_such_page(error: CollectError) -> bool:
    cause = error.__cause__
    return isinstance(cause, httpx.HTTPStatusError) and cause.response.is_client_error


async def until_idle(
    client: httpx.AsyncClient, metrics_url: str, *, timeout_s: float, poll_s: float = 0.3
) -> PassCounters:
    """Wait until nothing runs or waits and two consecutive reads have the same token counters; these counters.

    The counters move a little after the last byte of the last answer: reading them once would give a pass the tail of
    another. Raises CollectError after `timeout_s` without that, and soon if it finds no page there (404), or one that
    does not say how many run and wait.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    before: PassCounters | None = None
    state, wrong_pages = "it was never read", 0
    while True:
        try:
            text = await read_vllm(client, metrics_url)
        except CollectError as error:
            before, state = None, error.what
            wrong_pages = wrong_pages + 1 if _no_such_page(error) else 0
        else:
            gauges, now = parse_gauges(text), parse_counters(text)
            running, waiting = gauges.get("num_requests_running"), gauges.get("num_requests_waiting")
            wrong_pages = wrong_pages + 1 if running is None or waiting is None else 0
            idle = running == 0 and waiting == 0
            if idle and now == before:
                return now
            moving = (
                ", and token counters move: others use it, or several servers answer here" if idle and before else ""
            )
            before, state = now if idle else None, f"{running} running, {waiting} waiting{moving}"
        if wrong_pages == _WRONG_PAGES:
            raise CollectError(
                f"this is no metrics page of vLLM: {state}", where=metrics_url, remedy="correct the metrics URL"
            )
        if loop.time() >= deadline:
            raise CollectError(
                f"the engine was not idle within {timeout_s:g} s: {state}",
                where=metrics_url,
                remedy="see the engine's log: a request may hang, or another client may use this server",
            )
        await asyncio.sleep(poll_s)
