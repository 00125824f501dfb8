"""The cache simulator: what was measured live and published, and what must hold of any."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.records import Outcome
from harness.schedule import Plan, Prompting, plan_passes
from harness.sim import CacheSpec, HostSpec, LMCacheSpec, RemoteSpec, Simulated, infinite_cache_hits, simulate_cache
from tests.fakes.plans import CELL, closed, plan_of

PROMPTING = Prompting("model", "salt", 10, 32_000)
KV_BYTES = 4096
PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=10)


def lmcache(chunk: int = 256, *, host_chunks: int | None = 1000, remote: RemoteSpec | None = None) -> LMCacheSpec:
    """LMCache's multiprocess server with chunks of 4,096 bytes a token."""
    host = None if host_chunks is None else HostSpec(host_chunks)
    return LMCacheSpec(chunk, chunk * KV_BYTES, host, remote)


def laptop(block: int = 128, kv_cache_tokens: int = 5632, cache: LMCacheSpec | None = None) -> Simulated:
    """The ten documents of configs/laptop.yaml."""
    plan = plan_passes("ten-docs", 10, 1288, 13, 4, ("first", "again", "reverse"), 1, PROMPTING)
    return simulate_cache(plan, CacheSpec(kv_cache_tokens // block, block, cache), CELL)


def local_and_external(simulated: Simulated) -> list[tuple[int | None, int | None]]:
    """Counters by pass."""
    return [(one.counters.prefix_cache_hits, one.counters.external_prefix_cache_hits) for one in simulated.passes]


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        (None, [(0, 0), (0, 0), (5376, 0)]),
        (lmcache(), [(0, 0), (0, 12_800), (5376, 7424)]),
        (lmcache(host_chunks=None, remote=RemoteSpec(4)), [(0, 0), (0, 12_800), (5376, 7424)]),
    ],
)
def test_the_live_counters_of_the_laptop_workload(cache: LMCacheSpec | None, expected: list[tuple[int, int]]) -> None:
    """Ten documents on 44 blocks of 128, token for token as vLLM's counters said (numbers.md C and the first runs)."""
    assert local_and_external(laptop(cache=cache)) == expected


def test_the_live_hits_of_each_document() -> None:
    """In reverse documents 9 to 6 hit whole, 5 in part; what LMCache adds makes each 1,280."""
    reverse = laptop(cache=lmcache()).requests[-10:]
    assert [one.local_cached_tokens for one in reverse] == [1280] * 4 + [256] + [0] * 5
    assert [one.cached_tokens for one in reverse] == [1280] * 10


def test_every_get_of_the_live_reverse_pass() -> None:
    """The multiprocess server fetches all five chunks of each prompt, those that vLLM holds included: 50 calls."""
    counters = laptop(cache=lmcache(host_chunks=None, remote=RemoteSpec(1))).passes[2].counters
    assert (counters.valkey_get_calls, counters.valkey_bytes_out) == (50, 50 * 256 * KV_BYTES)


def ten_documents(cache: LMCacheSpec | None = None, blocks: int = 1345) -> Simulated:
    """The published ten documents: 5,011 tokens each, vLLM's cache of 21,520 tokens."""
    plan = plan_passes("docs", 10, 5011, 13, 1, ("first", "again", "reverse"), 1, PROMPTING)
    return simulate_cache(plan, CacheSpec(blocks, 16, cache), CELL)


def qwen(gib: float, watermark: float | None = None) -> LMCacheSpec:
    """LMCache in-process before Qwen2.5-1.5B (28,672 bytes a token), with so much host memory."""
    chunk_bytes = 256 * 28_672
    host = HostSpec(int(gib * 2**30 / chunk_bytes), "lru", watermark)
    return LMCacheSpec(256, chunk_bytes, host, None, False, True, False)


def test_the_published_ten_documents() -> None:
    """Nothing in the same order; in reverse four whole, one in part, and 21,488 tokens within 1 %."""
    simulated = ten_documents()
    hits = [one.cached_tokens or 0 for one in simulated.requests]
    assert hits[:20] == [0] * 20
    assert hits[20:24] == [5008] * 4
    assert 0 < hits[24] < 5008
    assert hits[25:] == [0] * 5
    assert sum(hits[20:]) == pytest.approx(21_488, rel=0.01)


def test_hits_in_the_same_order_appear_when_everything_fits() -> None:
    """Ten documents of 314 blocks: nothing hits in the second pass with room for nine, everything with room for ten."""
    assert ten_documents(blocks=1 + 9 * 314).passes[1].counters.prefix_cache_hits == 0
    assert ten_documents(blocks=1 + 10 * 314 + 1).passes[1].counters.prefix_cache_hits == 50_080


def test_host_memory_for_ten_documents_serves_the_whole_second_pass() -> None:
    """1.5 GiB: 19 chunks of each document are loaded, as published; in reverse what vLLM holds is not."""
    again, reverse = ten_documents(qwen(1.5)).passes[1:]
    assert again.counters.external_prefix_cache_hits == 10 * 4864
    assert reverse.counters.prefix_cache_hits == pytest.approx(21_488, rel=0.01)


@pytest.mark.parametrize(("gib", "watermark"), [(1.2, None), (1.2, 0.8), (1.5, 0.8)])
def test_host_memory_for_nine_documents(gib: float, watermark: float | None) -> None:
    """1.2 GiB serves nothing of the second pass, and under a watermark 1.5 GiB is as little as that."""
    assert ten_documents(qwen(gib, watermark)).passes[1].counters.external_prefix_cache_hits == 0


def test_a_policy_that_does_not_go_by_age_keeps_a_part_of_a_cycle() -> None:
    """With 1.2 GiB, where LRU serves nothing, some of the second pass comes from host memory."""
    spec = qwen(1.2)
    assert spec.host is not None
    other = replace(spec, host=replace(spec.host, policy="random"))
    assert 0 < (ten_documents(other).passes[1].counters.external_prefix_cache_hits or 0) < 10 * 4864


@settings(deadline=None)
@given(PROMPTS, PROMPTS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_nothing_beats_an_infinite_cache_and_a_large_one_equals_it(
    first: list[list[int]], again: list[list[int]], block: int, per_chunk: int, concurrency: int
) -> None:
    """Request by request: hits of a small cache are at most those of an infinite one; of one with room for all, all."""
    plan = plan_of(closed(first, concurrency=concurrency), closed(again, concurrency=concurrency, name="again"))
    chunk = block * per_chunk
    most = infinite_cache_hits(plan.passes, block, None)
    for blocks, equal in ((14, False), (500, True)):
        found = simulate_cache(plan, CacheSpec(blocks, block), CELL)
        for one in found.requests:
            assert (one.cached_tokens or 0) <= most[one.cell.pass_name, one.seq]
            assert not equal or one.cached_tokens == most[one.cell.pass_name, one.seq]
    tiered = simulate_cache(plan, CacheSpec(14, block, lmcache(chunk)), CELL)
    behind = infinite_cache_hits(plan.passes, chunk, None)
    for one in tiered.requests:
        assert (
            behind[one.cell.pass_name, one.seq] <= (one.cached_tokens or 0) <= most[one.cell.pass_name, one.seq] + chunk
        )


@settings(deadline=None)
@given(PROMPTS, st.sampled_from([None, 2, 4]), st.booleans())
def test_tokens_add_up(prompts: list[list[int]], chunk: int | None, warm: bool) -> None:
    """Each prompt token is computed or found in one tier; every planned request has one record, outcome ok."""
    cache = (
        None if chunk is None else lmcache(chunk, host_chunks=3, remote=RemoteSpec(2, instance_bytes=5 * 4 * KV_BYTES))
    )
    plan = plan_of(closed(prompts, max_tokens=3), prewarm=closed(prompts[:3], name="prewarm") if warm else None)
    found = simulate_cache(plan, CacheSpec(20, 2, cache), CELL)

    counters = found.passes[0].counters
    assert [one.seq for one in found.requests] == list(range(len(prompts)))
    assert all(one.outcome is Outcome.OK and one.source == "sim" for one in found.requests)
    for one, tiers in zip(found.requests, found.tiers, strict=True):
        assert one.cached_tokens == tiers.gpu + tiers.host + tiers.remote < one.prompt_tokens_planned
    assert counters.prefix_cache_queries == sum(map(len, prompts))
    assert counters.prefix_cache_queries == (
        (counters.prompt_tokens_local_compute or 0)
        + (counters.prompt_tokens_local_cache_hit or 0)
        + (counters.prompt_tokens_external_kv_transfer or 0)
    )


def test_a_request_larger_than_the_cache_is_refused() -> None:
    """A prompt of 30 tokens, its answer of 3 included, does not fit into fifteen blocks of two."""
    plan = plan_of(closed([list(range(30))], max_tokens=3))
    with pytest.raises(ValueError, match="needs 32 tokens"):
        simulate_cache(plan, CacheSpec(16, 2), CELL)


def test_sizes_that_do_not_divide_are_allowed_and_named() -> None:
    """Chunks of 250 over blocks of 16: hits still add up, and the cost is said."""
    spec = CacheSpec(400, 16, lmcache(250))
    plan: Plan = plan_passes("docs", 4, 1000, 5, 1, ("first", "again"), 1, PROMPTING)
    again = simulate_cache(plan, spec, CELL).requests[4:]
    assert [one.cached_tokens for one in again] == [1000] * 4
    assert "not whole blocks" in spec.costs(1005)[0]
    assert CacheSpec(400, 16, lmcache(256)).costs(1005) == []


@pytest.mark.parametrize(
    ("cache", "said"),
    [
        (lmcache(256, host_chunks=3), "host memory holds 3 chunks, and the longest prompt has 4"),
        (
            lmcache(256, host_chunks=None, remote=RemoteSpec(2, instance_bytes=400 * KV_BYTES)),
            "the remote tier holds 3 chunks, and the longest prompt has 4",
        ),
    ],
)
def test_a_tier_smaller_than_a_prompt_is_allowed_and_named(cache: LMCacheSpec, said: str) -> None:
    """It never hits whole; a tier with room for it has nothing to say."""
    assert said in CacheSpec(400, 16, cache).costs(1100)[0]
    assert CacheSpec(400, 16, cache).costs(1000) == []
