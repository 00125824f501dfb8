"""What prompts share and how long ago, against counting it the long way."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from harness.schedule import Prompting, plan_trace
from harness.sim.infinite import infinite_cache_hits
from harness.trace import Trace, TraceRequest
from harness.trace.reuse import PrefixTree, ReuseCounter, usable_hit
from tests.fakes.drawn_traces import BLOCK, shared_tokens, traces

CONTENT = st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=12)


@given(traces())
def test_a_row_finds_what_it_shares_with_some_row_before(trace: Trace) -> None:
    """Its longest common prefix with any earlier prompt, in tokens and in blocks."""
    counter = ReuseCounter(BLOCK)
    for place, request in enumerate(trace.requests):
        found = counter.add(request)
        shared = max((shared_tokens(request, other, BLOCK) for other in trace.requests[:place]), default=0)
        assert found.tokens == shared
        assert found.blocks == -(-shared // BLOCK)
        assert sum(tokens for _, tokens in found.distances) == shared


def by_brute_force(requests: list[TraceRequest], place: int) -> dict[int, int]:
    """Of each block that request `place` finds: the tokens of all prefixes used since, by going back to it."""
    request = requests[place]
    distances = {}
    for depth in range(1, len(request.blocks) + 1):
        prefix = request.blocks[:depth]
        seen: dict[object, int] = {}
        for row in range(place - 1, -1, -1):
            other = requests[row]
            for i in range(len(other.blocks)):
                seen[other.blocks[: i + 1]] = min(BLOCK, other.input_tokens - i * BLOCK)
            seen["rest", row] = max(0, other.input_tokens - BLOCK * len(other.blocks))
            if other.blocks[:depth] == prefix:
                distances[depth] = sum(seen.values())
                break
        else:
            break
    return distances


@given(traces())
def test_distances_are_the_tokens_used_since(trace: Trace) -> None:
    """Block by block, what a least-recently-used cache must hold."""
    counter = ReuseCounter(BLOCK)
    for place, request in enumerate(trace.requests):
        found = counter.add(request)
        expected: dict[int, int] = {}
        for depth, distance in by_brute_force(list(trace.requests), place).items():
            tokens = min(BLOCK, request.input_tokens - (depth - 1) * BLOCK)
            expected[distance] = expected.get(distance, 0) + tokens
        counted: dict[int, int] = {}
        for distance, tokens in found.distances:
            counted[distance] = counted.get(distance, 0) + tokens
        assert counted == expected


@given(CONTENT)
def test_prefixes_are_told_apart_whatever_ids_stand_for(prompts: list[list[int]]) -> None:
    """The number is the same exactly where all blocks up to there are, also if an id comes behind several others."""
    tree = PrefixTree()
    numbers: dict[tuple[int, ...], int] = {}
    for prompt in prompts:
        for depth, number in enumerate(tree.walk(prompt), start=1):
            assert numbers.setdefault(tuple(prompt[:depth]), number) == number
    assert sorted(numbers.values()) == list(range(len(numbers)))


@given(traces(max_rows=8), st.sampled_from([1, 16, 32, 64]))
def test_ids_and_tokens_agree_on_the_hits(trace: Trace, granule: int) -> None:
    """What is counted from block ids is what an infinite cache makes of the prompts that are sent."""
    plan = plan_trace("t", trace, Prompting("model", "salt", 0, 32_000), prewarm=False, turns_wait=False)
    counter = ReuseCounter(BLOCK)
    counted = [usable_hit(counter.add(one).tokens, one.input_tokens, granule) for one in trace.requests]

    assert list(infinite_cache_hits(plan.passes, granule, None).values()) == counted


def test_cyclic_documents_have_the_distance_of_all_of_them() -> None:
    """Ten documents of three blocks, round and round: each is found after all ten were used."""
    requests = (TraceRequest(i, "", 0, i, 3 * BLOCK, 1, tuple(range(i % 10 * 3, i % 10 * 3 + 3))) for i in range(40))
    counter = ReuseCounter(BLOCK)

    found = [counter.add(request) for request in requests]

    assert {one.distances for one in found[:10]} == {()}
    assert {one.distances for one in islice(found, 10, None)} == {((10 * 3 * BLOCK, 3 * BLOCK),)}
