"""The cost model, against the figures of arXiv 2610.21500 (numbers.md, A) and its own laws."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.model import CostModel, Reach
from harness.model.placement import EVEN, Placement

# arXiv 2610.21500: GLM-5.3 FP8 on 8 x B300, PCP8, one Valkey, a prompt of 16k tokens
PAPER = CostModel(
    prefill_tokens_per_s=52.2e3, kv_bytes_per_token=48.4e3, hit_fixed_s=0.33, bandwidth_bytes_per_s=1.71e9
)
SHARDED_BYTES_PER_S = 10.76e9
PROMPT_TOKENS = 16 * 1024
ARRIVALS_PER_S = 1.21

POSITIVE = st.floats(1e-3, 1e9)
TOKENS = st.floats(1, 1e6)
MODELS = st.builds(CostModel, POSITIVE, st.floats(1, 1e6), st.floats(0, 10), st.floats(1, 1e12))
CURVED = st.builds(
    CostModel,
    st.floats(10, 1e6),
    st.floats(1, 1e6),
    st.floats(0, 10),
    st.floats(1e3, 1e12),
    st.floats(0, 1),
    st.floats(1e-10, 1e-6),
)


def test_paper_threshold_bandwidth() -> None:
    """B* = s R = 2.53 GB/s, whatever the prompt's length."""
    assert PAPER.bstar_bytes_per_s == pytest.approx(2.53e9, rel=0.002)
    assert PAPER.bstar_at(PROMPT_TOKENS) == pytest.approx(PAPER.bstar_bytes_per_s)


def test_paper_hit_and_recompute() -> None:
    """A 16k hit is predicted at 0.79 s, recomputing it at 0.31 s."""
    assert PAPER.hit_s(PROMPT_TOKENS) == pytest.approx(0.79, abs=0.005)
    assert PAPER.recompute_s(PROMPT_TOKENS) == pytest.approx(0.313, abs=0.001)


def test_paper_break_even() -> None:
    """Even at infinite bandwidth a hit must be about 17k tokens long; at 1.71 GB/s no length is enough."""
    unlimited = replace(PAPER, bandwidth_bytes_per_s=math.inf)
    assert unlimited.break_even.tokens == pytest.approx(17e3, rel=0.02)
    assert PAPER.break_even.reach is Reach.NEVER


def test_paper_break_even_once_sharded() -> None:
    """At 10.76 GB/s: R T0 / (1 - B*/B) = 22.5k tokens, so that 16k prompts are still behind."""
    sharded = replace(PAPER, bandwidth_bytes_per_s=SHARDED_BYTES_PER_S)
    expected = 52.2e3 * 0.33 / (1 - 52.2e3 * 48.4e3 / SHARDED_BYTES_PER_S)
    assert sharded.break_even.tokens == pytest.approx(expected)
    assert expected == pytest.approx(22.5e3, rel=0.001)


def test_paper_rho() -> None:
    """At 1.21 requests/s of 0.79 GB each and 0.85 GB/s (0.78-0.89 measured) rho is about 1.13; recomputing: 0.38."""
    replay = replace(PAPER, bandwidth_bytes_per_s=0.85e9)
    assert replay.rho(ARRIVALS_PER_S, 0.79e9 / PAPER.kv_bytes_per_token) == pytest.approx(1.13, abs=0.006)
    assert PAPER.recompute_load(ARRIVALS_PER_S, PROMPT_TOKENS) == pytest.approx(0.38, abs=0.002)


def test_paper_sharded() -> None:
    """After sharding, 10.76 GB/s: the transfer takes 0.074 s, a hit 0.404 s, 0.09 s more than recomputing."""
    sharded = replace(PAPER, bandwidth_bytes_per_s=SHARDED_BYTES_PER_S)
    assert sharded.transfer_s(PROMPT_TOKENS) == pytest.approx(0.074, abs=0.0005)
    assert sharded.hit_s(PROMPT_TOKENS) == pytest.approx(0.404, abs=0.001)
    assert sharded.hit_s(PROMPT_TOKENS) - sharded.recompute_s(PROMPT_TOKENS) == pytest.approx(0.09, abs=0.002)


@settings(deadline=None)
@given(model=MODELS, rate=st.floats(1e-3, 1e3), factor=st.floats(1e-2, 1e2), tokens=TOKENS)
def test_rho_is_linear_in_rate(model: CostModel, rate: float, factor: float, tokens: float) -> None:
    """Twice the arrivals are twice the load."""
    assert model.rho(rate * factor, tokens) == pytest.approx(factor * model.rho(rate, tokens))


@settings(deadline=None)
@given(model=MODELS, rho=st.floats(1e-3, 10), tokens=TOKENS)
def test_rate_for_rho_inverts_rho(model: CostModel, rho: float, tokens: float) -> None:
    """The rate that was asked to give a rho gives it."""
    assert model.rho(model.rate_for_rho(rho, tokens), tokens) == pytest.approx(rho)


@settings(deadline=None)
@given(model=CURVED, factor=st.floats(1, 1e3), tokens=TOKENS)
def test_hit_time_falls_with_bandwidth(model: CostModel, factor: float, tokens: float) -> None:
    """More bandwidth never makes a hit slower, nor the break-even longer."""
    faster = replace(model, bandwidth_bytes_per_s=model.bandwidth_bytes_per_s * factor)
    assert faster.hit_s(tokens) <= model.hit_s(tokens)
    assert faster.break_even.tokens <= model.break_even.tokens * (1 + 1e-9)


@settings(deadline=None)
@given(model=CURVED, factor=st.floats(1, 1e3), tokens=TOKENS)
def test_larger_kv_never_makes_hits_faster_nor_a_faster_engine_slower(
    model: CostModel, factor: float, tokens: float
) -> None:
    """More bytes a token: longer hits and break-even, a higher B*. More tokens a second: recomputing is faster."""
    larger = replace(model, kv_bytes_per_token=model.kv_bytes_per_token * factor)
    assert larger.hit_s(tokens) >= model.hit_s(tokens)
    assert larger.break_even.tokens >= model.break_even.tokens * (1 - 1e-9)
    assert larger.bstar_at(tokens) >= model.bstar_at(tokens)
    faster = replace(model, prefill_tokens_per_s=model.prefill_tokens_per_s * factor)
    assert faster.recompute_s(tokens) <= model.recompute_s(tokens)
    assert faster.break_even.tokens >= model.break_even.tokens * (1 - 1e-9)


@settings(deadline=None)
@given(model=CURVED, bytes_scale=st.floats(1e-2, 1e2), time_scale=st.floats(1e-2, 1e2), tokens=TOKENS)
def test_units_do_not_matter(model: CostModel, bytes_scale: float, time_scale: float, tokens: float) -> None:
    """Counted in other bytes and other seconds, lengths and ratios stay, times and bandwidths scale."""
    other = CostModel(
        model.prefill_tokens_per_s / time_scale,
        model.kv_bytes_per_token * bytes_scale,
        model._t0() * time_scale,
        model.bandwidth_bytes_per_s * bytes_scale / time_scale,
        model.prefill_fixed_s * time_scale,
        model.prefill_s_per_token2 * time_scale,
    )
    assert other.hit_s(tokens) == pytest.approx(model.hit_s(tokens) * time_scale)
    assert other.recompute_s(tokens) == pytest.approx(model.recompute_s(tokens) * time_scale)
    assert other.bstar_at(tokens) == pytest.approx(model.bstar_at(tokens) * bytes_scale / time_scale)
    assert other.rho(1 / time_scale, tokens) == pytest.approx(model.rho(1, tokens))
    assume(model.break_even.tokens > 1e-3)
    assert other.break_even.tokens == pytest.approx(model.break_even.tokens, rel=1e-4)


@settings(deadline=None)
@given(model=MODELS, over=st.floats(1.01, 1e3))
def test_break_even_is_where_both_cost_the_same(model: CostModel, over: float) -> None:
    """Above B*, a hit of break-even length takes as long as recomputing it, and a longer one less."""
    fast = replace(model, bandwidth_bytes_per_s=model.bstar_bytes_per_s * over)
    tokens = fast.break_even.tokens
    assert fast.hit_s(tokens) == pytest.approx(fast.recompute_s(tokens))
    assume(tokens > 0)
    assert fast.hit_s(2 * tokens) < fast.recompute_s(2 * tokens)


@settings(deadline=None)
@given(model=CURVED)
def test_break_even_with_a_quadratic_term(model: CostModel) -> None:
    """Attention being quadratic, long prompts always hit faster: above n* by any B, and at n* both cost the same."""
    reach = model.break_even
    assert reach.reach is not Reach.NEVER
    if reach.reach is Reach.OVER:
        assert model.hit_s(reach.tokens) == pytest.approx(model.recompute_s(reach.tokens), rel=1e-6)
    longer = max(2 * reach.tokens, 1)
    assert model.hit_s(longer) <= model.recompute_s(longer) * (1 + 1e-9)


@settings(deadline=None)
@given(model=MODELS, share=st.floats(1e-3, 1), tokens=TOKENS)
def test_no_hit_wins_at_or_below_bstar(model: CostModel, share: float, tokens: float) -> None:
    """At B* and below there is no break-even, and no hit beats recomputing."""
    slow = replace(model, bandwidth_bytes_per_s=model.bstar_bytes_per_s * share)
    assert slow.break_even.reach is Reach.NEVER or slow.break_even.tokens > 1e9
    assert slow.hit_s(tokens) >= slow.recompute_s(tokens) * (1 - 1e-9)


def test_at_bstar_itself_no_hit_wins() -> None:
    """However s R and s / B are rounded: found by hypothesis at R = 0.001, s = 1.5."""
    model = CostModel(0.0010000000000000002, 1.5, 0.0, 1.0)
    at = replace(model, bandwidth_bytes_per_s=0.0015000000000000005)
    assert at.break_even.reach is Reach.NEVER


def test_without_fixed_cost_above_bstar_every_hit_wins() -> None:
    """T0 of zero and B above B*: always."""
    free = replace(PAPER, hit_fixed_s=0.0, bandwidth_bytes_per_s=3e9)
    assert free.break_even.reach is Reach.ALWAYS


@settings(deadline=None)
@given(model=CURVED, tokens=TOKENS)
def test_bandwidth_needed_is_where_a_hit_breaks_even(model: CostModel, tokens: float) -> None:
    """At that bandwidth a hit takes as long as recomputing; none is told where T0 alone takes longer."""
    needed = model.bandwidth_needed(tokens)
    if math.isinf(needed):
        assert model._t0() >= model.recompute_s(tokens)
        assert math.isinf(model.shards_for_median(tokens))
    else:
        assume(needed < 1e15)
        fast = replace(model, bandwidth_bytes_per_s=needed)
        assert fast.hit_s(tokens) == pytest.approx(fast.recompute_s(tokens))
        assert model.instances(model.shards_for_median(tokens)).bandwidth_bytes_per_s >= needed


@settings(deadline=None)
@given(model=MODELS, rate=st.floats(1e-3, 10), below=st.floats(0.05, 2), tokens=st.floats(1, 1e4))
def test_shards_needed_is_the_fewest(model: CostModel, rate: float, below: float, tokens: float) -> None:
    """So many instances bring rho below the target, and one fewer do not."""
    rho = model.rho(rate, tokens)
    assume(rho / below < 1e9)
    shards = model.shards_needed(rate, tokens, below)
    assert rho / shards < below * (1 + 1e-9)
    assert shards == 1 or rho / (shards - 1) >= below * (1 - 1e-9)


def test_infinite_bandwidth_has_no_load() -> None:
    """An infinitely fast tier is never the limit: any rate, one instance."""
    free = replace(PAPER, bandwidth_bytes_per_s=math.inf)
    assert (free.rho(5, 100), free.rate_for_rho(1, 100), free.shards_needed(5, 100, 0.7)) == (0, math.inf, 1)


def test_unknown_fixed_cost_is_not_taken_for_zero() -> None:
    """Without T0 the hit's time is refused by name; what does not need T0 is still told."""
    unknown = replace(PAPER, hit_fixed_s=None)
    assert unknown.break_even.reach is Reach.NEVER
    with pytest.raises(ConfigError, match="T0"):
        unknown.hit_s(PROMPT_TOKENS)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prefill_tokens_per_s", 0.0),
        ("kv_bytes_per_token", -1.0),
        ("kv_bytes_per_token", math.inf),
        ("hit_fixed_s", -0.1),
        ("hit_fixed_s", math.nan),
        ("bandwidth_bytes_per_s", math.nan),
        ("prefill_fixed_s", -1.0),
        ("prefill_s_per_token2", math.inf),
    ],
)
def test_impossible_machine_is_refused(field: str, value: float) -> None:
    """A rate, size or time that no machine has is an error, not a result."""
    with pytest.raises(ConfigError, match=field if "kv" not in field else "kv_bytes_per_token|R s"):
        replace(PAPER, **{field: value})


def test_target_must_be_above_zero() -> None:
    """No number of shards makes rho fall below zero."""
    with pytest.raises(ConfigError, match="below_rho"):
        PAPER.shards_needed(1, 1000, 0)


HASHED = st.builds(
    lambda model, instances, chunk: replace(model, placement=Placement(instances, chunk)),
    CURVED,
    st.integers(2, 16),
    st.sampled_from([64, 256]),
)


@settings(deadline=None, max_examples=30)
@given(model=HASHED, tokens=st.floats(1, 20_000))
def test_chunks_placed_by_hash_are_slower_than_equal_parts_and_faster_than_one_instance(
    model: CostModel, tokens: float
) -> None:
    """The fullest instance has at least an equal share and at most everything; rho is the same: all share the work."""
    even, one = replace(model, placement=EVEN), model.instances(1 / model.placement.instances)
    assert even.hit_s(tokens) <= model.hit_s(tokens) * (1 + 1e-9)
    assert model.hit_s(tokens) <= one.hit_s(tokens) * (1 + 1e-9)
    assert model.rho(1, tokens) == pytest.approx(even.rho(1, tokens))
    assert model.break_even.tokens >= even.break_even.tokens * (1 - 1e-9) - (model.placement.chunk_tokens or 0)


@settings(deadline=None, max_examples=30)
@given(model=HASHED)
def test_break_even_by_hash_is_the_longest_that_does_not_win(model: CostModel) -> None:
    """In whole chunks: one more is faster, and so is twice as much."""
    reach, chunk = model.break_even, model.placement.chunk_tokens or 0
    if reach.reach is Reach.OVER:
        assert model.hit_s(reach.tokens) >= model.recompute_s(reach.tokens)
    if reach.reach is not Reach.NEVER:
        for tokens in (reach.tokens + chunk, 2 * (reach.tokens + chunk)):
            assert model.hit_s(tokens) <= model.recompute_s(tokens)


def test_a_short_prompt_gains_little_from_many_instances() -> None:
    """Five chunks never come faster than one chunk on one link: the number of instances that is enough may be none."""
    chunk_s = 256 * PAPER.kv_bytes_per_token / PAPER.bandwidth_bytes_per_s
    by_hash = replace(PAPER, hit_fixed_s=0.0, placement=Placement(1, 256))
    many = by_hash.instances(1 << 16)
    assert many.transfer_s(5 * 256) == pytest.approx(chunk_s, rel=1e-3)
    slower = replace(by_hash, prefill_tokens_per_s=5 * 256 / (0.9 * chunk_s))
    assert math.isinf(slower.shards_for_median(5 * 256))
    enough = replace(by_hash, prefill_tokens_per_s=5 * 256 / (2.0 * chunk_s))
    count = enough.shards_for_median(5 * 256)
    assert enough.instances(count).hit_s(5 * 256) < enough.recompute_s(5 * 256)
    assert enough.instances(count - 1).hit_s(5 * 256) >= enough.recompute_s(5 * 256)
