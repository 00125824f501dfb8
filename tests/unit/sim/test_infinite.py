"""The infinite cache."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.schedule import PassPlan, PlannedRequest, Prompting, plan_passes, plan_trace
from harness.sim import infinite_cache_hits, mean_hit_tokens
from harness.sim.infinite import stored_tokens
from harness.trace import MakeSpec, make_trace

PROMPTING = Prompting("model", "salt", 10, 32_000)

# Few token ids and short prompts, so that prefixes do repeat.
PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), max_size=6)


def pass_of(name: str, prompts: list[list[int]]) -> PassPlan:
    """A pass of these prompts."""
    return PassPlan(
        name,
        tuple(
            PlannedRequest(seq, seq, "", None, np.array(tokens, dtype=np.uint32), 1, b"")
            for seq, tokens in enumerate(prompts)
        ),
        1,
    )


def naive(earlier: list[list[int]], prompt: list[int], granule: int) -> int:
    """The longest hit by definition: whole granules, not the whole prompt, that an earlier prompt starts with."""
    return max(
        hit
        for hit in range(0, len(prompt), granule)
        if hit == 0 or any(len(past) >= hit and past[:hit] == prompt[:hit] for past in earlier)
    )


@settings(deadline=None)
@given(PROMPTS, PROMPTS, PROMPTS, st.integers(1, 4), st.booleans())
def test_agrees_with_the_definition(
    warm: list[list[int]], first: list[list[int]], again: list[list[int]], granule: int, warmed: bool
) -> None:
    """Hits are those of a cache that compares every prompt with all that came before."""
    hits = infinite_cache_hits(
        [pass_of("first", first), pass_of("again", again)], granule, pass_of("prewarm", warm) if warmed else None
    )

    earlier = list(warm) if warmed else []
    expected = {}
    for name, prompts in (("first", first), ("again", again)):
        for seq, prompt in enumerate(prompts):
            expected[name, seq] = naive(earlier, prompt, granule)
            earlier.append(prompt)
    assert hits == expected


@given(PROMPTS, st.integers(1, 4))
def test_what_is_stored_is_counted_once(prompts: list[list[int]], granule: int) -> None:
    """Stored tokens are those of the different prefixes of whole granules."""
    prefixes = {tuple(one[:end]) for one in prompts for end in range(granule, len(one) + 1, granule)}
    assert stored_tokens(pass_of("prewarm", prompts), granule) == granule * len(prefixes)


@settings(deadline=None)
@given(PROMPTS, st.integers(1, 3), st.integers(2, 4))
def test_coarser_granules_hit_no_more(prompts: list[list[int]], granule: int, times: int) -> None:
    """A cache of granules several times as large hits at most as much, request by request."""
    fine = infinite_cache_hits([pass_of("p", prompts)], granule, None)
    coarse = infinite_cache_hits([pass_of("p", prompts)], granule * times, None)

    assert all(coarse[place] <= fine[place] for place in fine)


def test_the_last_token_is_always_computed() -> None:
    """A prompt that is held whole hits one granule less than it has."""
    assert infinite_cache_hits([pass_of("p", [[1] * 8, [1] * 8])], 4, None) == {("p", 0): 0, ("p", 1): 4}


def test_the_live_passes_on_a_cpu() -> None:
    """Ten documents of 1,288 tokens hit 1,280 each with chunks of 256, as LMCache's log of a live run says."""
    plan = plan_passes("docs", 10, 1288, 13, 4, ("first", "again", "reverse"), 1, PROMPTING)

    means = mean_hit_tokens(infinite_cache_hits(plan.passes, 256, plan.prewarm))

    assert means == {"first": 0.0, "again": 1280.0, "reverse": 1280.0}


@pytest.mark.parametrize(("prewarm", "cold"), [(True, 0), (False, 6)])
def test_a_prewarmed_trace_hits_every_prefix(prewarm: bool, cold: int) -> None:
    """After the prewarm every request hits its whole prefix; without it the first use of each prefix misses."""
    trace = make_trace(MakeSpec(requests=20, prefixes=6, prefix_tokens=1024))
    plan = plan_trace("t", trace, PROMPTING, prewarm=prewarm)

    hits = infinite_cache_hits(plan.passes, 256, plan.prewarm)

    assert sorted(hits.values()) == [0] * cold + [1024] * (20 - cold)


def test_refuses_a_granule_of_nothing() -> None:
    """A granule holds at least one token."""
    with pytest.raises(ValueError, match="granule_tokens is 0"):
        infinite_cache_hits([], 0, None)
