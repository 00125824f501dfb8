"""The cost model, against the figures of arXiv 2610.21500 (numbers.md, A) and its own laws."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.model import CostModel

# arXiv 2610.21500: GLM-5.3 FP8 on 8 x B300, PCP8, one Valkey, a prompt of 16k tokens
PAPER = CostModel(
    prefill_tokens_per_s=52.2e3, kv_bytes_per_token=48.4e3, hit_fixed_s=0.33, bandwidth_bytes_per_s=1.71e9
)
PROMPT_TOKENS = 16 * 1024
ARRIVALS_PER_S = 1.21

POSITIVE = st.floats(1e-3, 1e9)
TOKENS = st.floats(1, 1e6)
MODELS = st.builds(CostModel, POSITIVE, st.floats(1, 1e6), st.floats(0, 10), st.floats(1, 1e12))


def test_paper_threshold_bandwidth() -> None:
    """B* = s R = 2.53 GB/s."""
    assert PAPER.bstar_bytes_per_s == pytest.approx(2.53e9, rel=0.002)


def test_paper_hit_and_recompute() -> None:
    """A 16k hit is predicted at 0.79 s, recomputing it at 0.313 s."""
    assert PAPER.hit_s(PROMPT_TOKENS) == pytest.approx(0.79, abs=0.005)
    assert PAPER.recompute_s(PROMPT_TOKENS) == pytest.approx(0.313, abs=0.001)


def test_paper_break_even() -> None:
    """Even at infinite bandwidth a hit must be about 17k tokens long; at 1.71 GB/s no length is enough."""
    unlimited = replace(PAPER, bandwidth_bytes_per_s=math.inf)
    assert unlimited.break_even_tokens == pytest.approx(17e3, rel=0.02)
    assert PAPER.break_even_tokens is None


def test_paper_rho() -> None:
    """At 1.21 requests/s of 0.79 GB each and 0.85 GB/s (0.78-0.89 measured) rho is about 1.13; recomputing: 0.38."""
    replay = replace(PAPER, bandwidth_bytes_per_s=0.85e9)
    assert replay.rho(ARRIVALS_PER_S, 0.79e9 / PAPER.kv_bytes_per_token) == pytest.approx(1.13, abs=0.006)
    assert PAPER.recompute_load(ARRIVALS_PER_S, PROMPT_TOKENS) == pytest.approx(0.38, abs=0.002)


def test_paper_sharded() -> None:
    """After sharding, 10.76 GB/s: a hit takes 0.404 s, 0.09 s more than recomputing."""
    sharded = replace(PAPER, bandwidth_bytes_per_s=10.76e9)
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
@given(model=MODELS, factor=st.floats(1, 1e3), tokens=TOKENS)
def test_hit_time_falls_with_bandwidth(model: CostModel, factor: float, tokens: float) -> None:
    """More bandwidth never makes a hit slower."""
    faster = replace(model, bandwidth_bytes_per_s=model.bandwidth_bytes_per_s * factor)
    assert faster.hit_s(tokens) <= model.hit_s(tokens)


@settings(deadline=None)
@given(model=MODELS, over=st.floats(1.01, 1e3))
def test_break_even_is_where_both_cost_the_same(model: CostModel, over: float) -> None:
    """Above B*, a hit of break-even length takes as long as recomputing it, and a longer one less."""
    fast = replace(model, bandwidth_bytes_per_s=model.bstar_bytes_per_s * over)
    tokens = fast.break_even_tokens
    assert tokens is not None
    assert fast.hit_s(tokens) == pytest.approx(fast.recompute_s(tokens))
    assume(tokens > 0)
    assert fast.hit_s(2 * tokens) < fast.recompute_s(2 * tokens)


@settings(deadline=None)
@given(model=MODELS, share=st.floats(1e-3, 1), tokens=TOKENS)
def test_no_hit_wins_at_or_below_bstar(model: CostModel, share: float, tokens: float) -> None:
    """At B* and below there is no break-even, and no hit beats recomputing."""
    slow = replace(model, bandwidth_bytes_per_s=model.bstar_bytes_per_s * share)
    assert slow.break_even_tokens is None
    assert slow.hit_s(tokens) >= slow.recompute_s(tokens) * (1 - 1e-9)


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
    assert unknown.break_even_tokens is None
    with pytest.raises(ConfigError, match="T0"):
        unknown.hit_s(PROMPT_TOKENS)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prefill_tokens_per_s", 0.0),
        ("kv_bytes_per_token", -1.0),
        ("kv_bytes_per_token", math.inf),
        ("hit_fixed_s", -0.1),
        ("bandwidth_bytes_per_s", math.nan),
    ],
)
def test_impossible_machine_is_refused(field: str, value: float) -> None:
    """A rate, size or time that no machine has is an error, not a result."""
    with pytest.raises(ConfigError):
        replace(PAPER, **{field: value})


def test_target_must_be_above_zero() -> None:
    """No number of shards makes rho fall below zero."""
    with pytest.raises(ConfigError, match="below_rho"):
        PAPER.shards_needed(1, 1000, 0)
