"""The queue simulator: formulas of queueing theory, conservation, and each way of loading."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.records import RequestRecord
from harness.records.latency import latencies
from harness.schedule import PassPlan, PlannedRequest
from harness.sim import (
    CacheSpec,
    HostSpec,
    LMCacheSpec,
    RemoteSpec,
    Service,
    Simulated,
    simulate_cache,
    simulate_queue,
)
from tests.fakes.plans import CELL, closed, opened, own_prompts, plan_of, request

LARGE = CacheSpec(300, 100_000)  # one block a prompt
SERVER = Service(1000.0, batched_tokens=100_000, running=1)  # one request at a time, 1,000 tokens a second


def waits(simulated: Simulated) -> np.ndarray:
    """Seconds that each request waited before it was computed."""
    return np.array([one.queue_ms or 0.0 for one in simulated.requests]) / 1e3


def poisson(requests: int, rate: float, seed: int) -> np.ndarray:
    """Arrival times in seconds."""
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, requests))


def mean_within(values: np.ndarray, expected: float) -> bool:
    """Whether the mean is `expected` within four standard errors, the means of 20 batches taken as independent."""
    batches = np.array([part.mean() for part in np.array_split(values, 20)])
    return abs(batches.mean() - expected) < 4 * batches.std(ddof=1) / math.sqrt(len(batches))


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.8])
def test_md1(rho: float) -> None:
    """Equal prompts, Poisson arrivals, one server: the mean wait is rho D / (2 (1 - rho)) (Pollaczek, Khinchine)."""
    arrivals = poisson(8000, rho, 1)
    prompts = own_prompts([1000] * 8000)
    found = simulate_queue(plan_of(opened(list(zip(arrivals, prompts, strict=True)))), LARGE, SERVER, CELL, 1e9)
    assert mean_within(waits(found)[400:], rho / (2 * (1 - rho)))


@pytest.mark.parametrize("rho", [0.3, 0.6])
def test_mm1(rho: float) -> None:
    """Exponential prompts: the mean wait is rho S / (1 - rho)."""
    lengths = np.maximum(1, np.random.default_rng(2).exponential(1000, 8000)).astype(int)
    arrivals = poisson(8000, rho * 1000 / lengths.mean(), 3)
    plan = plan_of(opened(list(zip(arrivals, own_prompts(lengths.tolist()), strict=True))))
    found = simulate_queue(plan, LARGE, SERVER, CELL, 1e9)
    assert mean_within(waits(found)[400:], rho * lengths.mean() / 1000 / (1 - rho))


def test_above_saturation_the_queue_grows_as_rho_says() -> None:
    """With rho 1.25 each second of arrivals adds a quarter of a second of waiting."""
    arrivals = np.arange(400) / 1.25
    found = simulate_queue(
        plan_of(opened(list(zip(arrivals, own_prompts([1000] * 400), strict=True)))), LARGE, SERVER, CELL
    )
    growth = np.polyfit(arrivals, waits(found), 1)[0]
    assert growth == pytest.approx(0.25, abs=0.01)


PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=10)
TIERS = LMCacheSpec(4, 400.0, HostSpec(6), RemoteSpec(2))


@settings(deadline=None, max_examples=60)
@given(
    PROMPTS,
    st.lists(st.floats(0, 5), min_size=10, max_size=10),
    st.sampled_from([None, TIERS, replace(TIERS, host=None), replace(TIERS, host=None, fetches_whole=False)]),
    st.sampled_from(["asynchronous", "in-step"]),
    st.sampled_from(["none", "beside", "competing"]),
    st.tuples(st.integers(1, 3), st.integers(0, 2), st.sampled_from([0.0, 0.005])),
    st.integers(10, 30),  # the longest prompt and answer need 9, and one is the null block
    st.integers(1, 6),
)
def test_every_request_ends_in_order_of_time(
    prompts: list[list[int]],
    dues: list[float],
    tiers: LMCacheSpec | None,
    loads: str,
    stores: str,
    lookups: tuple[int, int, float],
    blocks: int,
    answer: int,
) -> None:
    """Each request ends once, its stamps in order, its parts adding up to its TTFT, run after run."""
    arrivals = list(zip(sorted(dues), prompts, strict=False))
    plan = plan_of(opened(arrivals, max_tokens=answer), closed(prompts, concurrency=2, max_tokens=answer))
    in_flight, *looks = lookups
    service = Service(
        *(100.0, 0.01, 0.05, (0.9, 1.2), (-0.01, 0.02), loads, in_flight, (1e3, 2e3)),  # type: ignore[arg-type]
        instance_cv=0.5,
        host_bytes_per_s=1e5,
        stores=stores,  # type: ignore[arg-type]
        writer_bytes_per_s=1e4,
        lookup_steps=looks[0],
        lookup_poll_s=looks[1],
        batched_tokens=5,
        running=3,
    )
    caches = CacheSpec(blocks, 2, tiers)
    found = simulate_queue(plan, caches, service, CELL)

    assert len(found.requests) == 2 * len(prompts)
    for one in found.requests:
        assert one.first_token_ns is not None
        assert one.due_ns < one.first_token_ns == one.chunk_ns[0]
        assert list(one.chunk_ns) == sorted(one.chunk_ns)
        assert len(one.chunk_ns) == answer
        parts = [one.queue_ms, one.load_ms, one.recompute_ms]
        assert all(part is not None and part > -1e-6 for part in parts)
        assert sum(part or 0 for part in parts) == pytest.approx(latencies(one).ttft_ms, abs=1e-3)
        assert (one.cached_tokens or 0) < one.prompt_tokens_planned
    assert found == simulate_queue(plan, caches, service, CELL)
    shares = [sample.value for sample in found.samples if sample.name.endswith("busy_share")]
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in shares)


@settings(deadline=None, max_examples=30)
@given(PROMPTS, st.sampled_from([None, TIERS]), st.integers(9, 30))
def test_one_at_a_time_hits_are_those_of_the_cache_simulator(
    prompts: list[list[int]], tiers: LMCacheSpec | None, blocks: int
) -> None:
    """In a closed loop of one, time changes nothing: each request hits what the simulator without a clock says."""
    spec = None if tiers is None else replace(tiers, host=HostSpec(100))
    plan = plan_of(closed(prompts, max_tokens=3), closed(prompts, name="again", max_tokens=3))
    caches = CacheSpec(blocks, 2, spec)
    timed = simulate_queue(plan, caches, Service(100.0, instance_bytes_per_s=(1e3, 1e3)), CELL)
    assert timed.tiers == simulate_cache(plan, caches, CELL).tiers


def warm(arrivals: Sequence[float], documents: int = 4) -> tuple[PassPlan, PassPlan]:
    """Prompts of 1,000 shared tokens and one of their own, and what warms the caches for them."""
    shared = [np.full(1000, document + 1) for document in range(documents)]
    prompts = [np.append(shared[i % documents], 900 + i) for i in range(len(arrivals))]
    return opened(list(zip(arrivals, prompts, strict=True))), closed([*shared], name="prewarm")


def remote(**changes: object) -> CacheSpec:
    """An engine without a prefix cache of its own, chunks of 250 tokens and 1 B a token, instances as asked."""
    spec = RemoteSpec(**{"instances": 1, **changes})  # type: ignore[arg-type]
    return CacheSpec(10_000, 16, LMCacheSpec(250, 250.0, None, spec), caching=False)


def ttft_s(found: Simulated) -> list[float]:
    """Seconds."""
    return [(latencies(one).ttft_ms or 0) / 1e3 for one in found.requests]


def run(arrivals: Sequence[float], caches: CacheSpec, service: Service, documents: int = 4) -> Simulated:
    """The warm trace through an engine."""
    replay, prewarm = warm(arrivals, documents)
    return simulate_queue(plan_of(replay, prewarm=prewarm), caches, service, CELL)


BASE = Service(1000.0, hit_fixed_s=0.5, instance_bytes_per_s=(500.0,), stores="none")


def test_a_lone_hit_takes_what_the_cost_model_says() -> None:
    """T0 + n s / B and the forward pass of the one token left: 0.5 + 1,000 / 500 + 1 / 1,000 s, either way."""
    for loads in ("asynchronous", "in-step"):
        assert ttft_s(run([0.0], remote(), replace(BASE, loads=loads))) == [pytest.approx(2.501)]


def test_a_load_inside_the_step_stalls_all() -> None:
    """A miss that is computed while another loads waits for it in-step, and does not beside."""
    late = replace(BASE, batched_tokens=2000)
    own = np.full(600, 77, dtype=np.uint32)
    replay, prewarm = warm([0.0])
    both = PassPlan("replay", (*replay.requests, request(1, own, due_s=0.0)), None)
    for loads, expected in (("in-step", 2.5 + 0.601), ("asynchronous", 0.6)):
        found = simulate_queue(plan_of(both, prewarm=prewarm), remote(), replace(late, loads=loads), CELL)
        assert ttft_s(found)[1] == pytest.approx(expected)


def test_the_slowest_rank_holds_up_the_others() -> None:
    """Four ranks, one of whose instances is slow: the load takes as long as its part."""
    caches = CacheSpec(10_000, 16, LMCacheSpec(250, 250.0, None, RemoteSpec(4, "rank", ranks=4)), caching=False)
    service = replace(BASE, loads="in-step", instance_bytes_per_s=(500.0, 500.0, 500.0, 100.0))
    assert ttft_s(run([0.0], caches, service)) == [pytest.approx(0.5 + 250 / 100 + 0.001)]


@pytest.mark.parametrize("placement", ["position", "rank"])
def test_instances_share_a_load(placement: str) -> None:
    """Four chunks on four instances, or four parts of each: a quarter of the time."""
    ranks = 4 if placement == "rank" else 1
    caches = remote(instances=4, placement=placement, ranks=ranks)
    found = run([0.0], caches, replace(BASE, instance_bytes_per_s=(500.0,) * 4))
    assert ttft_s(found) == [pytest.approx(0.5 + 0.5 + 0.001)]


def test_a_cap_on_loads_in_flight_makes_the_others_wait() -> None:
    """Two instances, two documents wholly on one each: with one load at a time the second waits for the first."""
    both = remote(instances=4, placement="position")
    service = replace(BASE, hit_fixed_s=0.0, instance_bytes_per_s=(500.0,) * 4)
    apart = [ttft_s(run([0.0, 0.0], both, replace(service, loads_in_flight=cap)))[1] for cap in (1, 2)]
    assert apart == [pytest.approx(1.0, abs=0.01)] * 2  # one server an instance: they queue there as well
    slow = replace(service, instance_bytes_per_s=(500.0, math.inf, math.inf, math.inf))
    first, second = ttft_s(run([0.0, 0.0], both, replace(slow, loads_in_flight=1)))
    assert second == pytest.approx(2 * first, abs=0.01)


@pytest.mark.parametrize(("steps", "waited"), [(0, 0), (1, 1), (2, 2)])
def test_a_busy_engine_reads_a_lookups_answer_only_between_steps(steps: int, waited: int) -> None:
    """While an answer of many tokens is written, 0.1 s each, a hit in host memory is seen so many steps later."""
    long, hit = request(0, np.full(100, 7), max_tokens=50, due_s=0.0), request(1, [*[9] * 8, 1], due_s=1.05)
    plan = plan_of(PassPlan("replay", (long, hit), None), prewarm=closed([[9] * 8], name="prewarm"))
    caches = CacheSpec(100, 2, LMCacheSpec(4, 4.0, HostSpec(100), None))
    service = Service(1e6, step_s=0.1, lookup_steps=steps)
    _, found = simulate_queue(plan, caches, service, CELL).requests
    looked, copied, computed = 1, waited, 1  # the step under way, those until the answer is read, its own
    assert found.first_token_ns is not None
    assert found.first_token_ns - found.due_ns == pytest.approx((looked + copied + computed) * 0.1e9, abs=0.06e9)
    assert found.external_cached_tokens == 8


def test_what_is_still_on_its_way_when_it_is_asked_for_waits_for_the_next_asking() -> None:
    """Of two steps a round: a load that ends in the second step of a round is seen at the end of the next round."""
    long = request(0, np.full(100, 7), max_tokens=100, due_s=0.0)
    hit = request(1, [*[9] * 8, 1], due_s=1.0001)
    plan = plan_of(PassPlan("replay", (long, hit), None), prewarm=closed([[9] * 8], name="prewarm"))
    caches = CacheSpec(300, 2, LMCacheSpec(4, 4.0, None, RemoteSpec(1)), caching=False)
    seen = []
    for takes in (0.05, 0.15, 0.25, 0.35):
        service = Service(1e6, step_s=0.1, instance_bytes_per_s=(8.0 / takes,), lookup_steps=2)
        one = simulate_queue(plan, caches, service, CELL).requests[1]
        seen.append(round(((one.first_token_ns or 0) - one.due_ns) / 1e8))
    assert seen == [4, 6, 6, 8]


def test_an_idle_engine_reads_an_answer_at_once() -> None:
    """Alone, a hit takes as long however many steps a round has, and is held up by no look."""
    alone = [ttft_s(run([0.0], remote(), replace(BASE, lookup_steps=steps, lookup_poll_s=0.01))) for steps in (0, 1, 2)]
    assert alone == [[pytest.approx(2.501)]] * 3


def test_each_look_that_is_told_nothing_holds_up_the_step() -> None:
    """One lookup under way for 1 s: each token of another's answer takes 0.05 s more until then."""
    long, hit = request(0, np.full(100, 7), max_tokens=30, due_s=0.0), request(1, [*[9] * 8, 1], due_s=0.0)
    plan = plan_of(PassPlan("replay", (long, hit), None), prewarm=closed([[9] * 8], name="prewarm"))
    caches = CacheSpec(100, 2, LMCacheSpec(4, 4.0, None, RemoteSpec(1)), caching=False)
    service = Service(1e6, step_s=0.1, instance_bytes_per_s=(8.0,), lookup_steps=1, lookup_poll_s=0.05)
    answer, _ = simulate_queue(plan, caches, service, CELL).requests
    gaps = np.diff(answer.chunk_ns) / 1e9
    assert gaps[:5] == pytest.approx(0.15, abs=1e-3)
    assert gaps[-5:] == pytest.approx(0.1, abs=1e-3)


def test_prompts_draw_their_times_from_the_spread() -> None:
    """Each alone takes one of the times given, each of them comes up, and the same seed gives the same."""
    replay, prewarm = warm(np.arange(40) * 10.0)
    service = replace(BASE, prefill_spread=(0.5, 2.0), hit_fixed_spread_s=(0.0, 1.0, 3.0))
    found = [ttft_s(simulate_queue(plan_of(replay, prewarm=prewarm), remote(), service, CELL)) for _ in range(2)]
    assert found[0] == found[1]
    extra = [round(one - 2.5) for one in found[0]]
    assert set(extra) == {0, 1, 3}
    cold = ttft_s(simulate_queue(plan_of(replay), CacheSpec(10_000, 16, caching=False), service, CELL))
    assert {round(one, 3) for one in cold} == {0.5, 2.002}


def test_stores_that_compete_slow_loads_down() -> None:
    """A prompt that is computed and stored ahead of a load holds that load up where one server does both."""
    own = np.full(500, 77, dtype=np.uint32)
    replay, prewarm = warm([0.51])
    plan = plan_of(PassPlan("replay", (request(9, own, due_s=0.0), *replay.requests), None), prewarm=prewarm)
    times = []
    for stores in ("beside", "competing"):
        service = replace(BASE, stores=stores, batched_tokens=5000)
        times.append(ttft_s(simulate_queue(plan, remote(), service, CELL))[1])
    assert times[1] - times[0] == pytest.approx(500 / 500, abs=0.02)


def test_a_single_writer_holds_up_the_step() -> None:
    """One rank writes 1,000 bytes at 250 a second, and the first token waits for it."""
    plan = plan_of(opened([(0.0, own_prompts([1000])[0])]))
    caches = CacheSpec(1000, 16, LMCacheSpec(250, 250.0, HostSpec(100), None))
    fast, slow = (
        ttft_s(simulate_queue(plan, caches, replace(BASE, writer_bytes_per_s=rate), CELL))[0] for rate in (None, 250.0)
    )
    assert slow - fast == pytest.approx(4.0)


def test_long_prompts_are_computed_in_chunks_with_others() -> None:
    """With 100 tokens a step a short prompt that comes later does not wait for all of a long one."""
    prompts = own_prompts([1000, 60])
    plan = plan_of(opened([(0.0, prompts[0]), (0.05, prompts[1])]))
    found = simulate_queue(plan, LARGE, Service(1000.0, batched_tokens=150), CELL)
    whole = simulate_queue(plan, LARGE, Service(1000.0, batched_tokens=5000), CELL)
    assert ttft_s(found)[1] >= ttft_s(whole)[1] - 0.2
    assert ttft_s(whole)[1] == pytest.approx(0.95 + 0.06, abs=0.002)  # and one token of the first's answer is none


def test_a_turn_waits_for_the_one_before() -> None:
    """A turn is due its gap after the end of its predecessor."""
    first = request(0, [1] * 100, due_s=0.0)
    turn = PlannedRequest(1, 1, "a", None, np.ones(200, dtype=np.uint32), 1, b"", after=0, gap_ns=2_000_000_000)
    found = simulate_queue(plan_of(PassPlan("replay", (first, turn), None)), LARGE, Service(1000.0), CELL)
    assert found.requests[1].due_ns - (found.requests[0].done_ns or 0) == 2_000_000_000


def test_out_of_blocks_the_last_gives_way_and_comes_back() -> None:
    """Two answers that together outgrow the cache: one is preempted, computed again, and both end."""
    prompts = own_prompts([8, 8])
    plan = plan_of(closed(prompts, concurrency=2, max_tokens=9))
    found: Sequence[RequestRecord] = simulate_queue(plan, CacheSpec(8, 4), Service(100.0, 0.1), CELL).requests
    assert [len(one.chunk_ns) for one in found] == [9, 9]
    assert (found[1].done_ns or 0) - (found[0].done_ns or 0) > 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"prefill_tokens_per_s": 0.0}, "prefill_tokens_per_s is 0.0"),
        ({"prefill_tokens_per_s": math.nan}, "above zero"),
        ({"instance_bytes_per_s": (1.0, -1.0)}, r"instance_bytes_per_s\[1\]"),
        ({"hit_fixed_s": -1.0}, "zero or above"),
        ({"step_s": math.inf}, "zero or above"),
        ({"loads_in_flight": 0}, "one or above"),
        ({"writer_bytes_per_s": 0.0}, "writer_bytes_per_s"),
        ({"lookup_steps": 3}, "lookup_steps is 3"),
        ({"lookup_poll_s": -1.0}, "zero or above"),
        ({"prefill_spread": (1.0, 0.0)}, "a spread"),
        ({"hit_fixed_spread_s": (-1.0,)}, "a spread"),
    ],
)
def test_rates_that_cannot_be_are_refused(wrong: dict[str, object], said: str) -> None:
    """Zero, negative, infinite and NaN."""
    with pytest.raises(ValueError, match=said):
        replace(BASE, **wrong)


def test_loads_leave_the_blocks_that_others_need_to_end() -> None:
    """Prompts that each need one block more than what they load: as many as fit load at once, and all end."""
    spec = LMCacheSpec(4, 4.0, None, RemoteSpec(1))
    prompts = [np.append(np.full(8, document + 1), 99) for document in range(5)]
    plan = plan_of(
        opened([(0.0, prompt) for prompt in prompts]), prewarm=closed([p[:8] for p in prompts], name="prewarm")
    )
    found = simulate_queue(plan, CacheSpec(1 + 8, 4, spec), replace(BASE, prefill_tokens_per_s=1000.0), CELL)
    assert [one.external_cached_tokens for one in found.requests] == [8] * 5


def test_prompts_that_load_in_one_step_load_one_after_another() -> None:
    """Two hits admitted together wait for both loads, each with its T0, in-step; beside, each for its own."""
    service = replace(BASE, instance_bytes_per_s=(500.0,) * 4, batched_tokens=2000)
    four = remote(instances=4, placement="position")
    inside = ttft_s(run([0.0, 0.0], four, replace(service, loads="in-step")))
    beside = ttft_s(run([0.0, 0.0], four, service))
    assert inside == [pytest.approx(2 * (0.5 + 0.5) + 0.002)] * 2
    assert beside == [pytest.approx(0.5 + 0.5 + 0.001), pytest.approx(1.0 + 0.5 + 0.001)]
