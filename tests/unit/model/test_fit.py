"""Fits: known lines are found again, too few points are refused."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.model.fit import fit_hits, fit_prefill
from harness.model.uncertain import fitted, interval

LENGTHS = [256, 512, 1280, 2560]


def times(
    fixed: float, slope: float, square: float, noise: float, copies: int = 5, seed: int = 1
) -> tuple[list[float], list[float]]:
    """Lengths and noisy times of a known line, `copies` of each length."""
    random = np.random.default_rng(seed)
    n = [float(length) for length in LENGTHS for _ in range(copies)]
    return n, [
        (fixed + slope * one + square * one**2) * math.exp(noise * z)
        for one, z in zip(n, random.standard_normal(len(n)), strict=True)
    ]


@settings(deadline=None, max_examples=25)
@given(fixed=st.floats(0.001, 1), rate=st.floats(1e2, 1e5), square=st.sampled_from([0.0, 1e-8, 1e-7]))
def test_an_exact_line_is_found_again(fixed: float, rate: float, square: float) -> None:
    """Without noise every predicted time is the measured one, at lengths between too."""
    line = fit_prefill(*times(fixed, 1 / rate, square, 0))
    for tokens in (300, 1000, 2000):
        assert line.at(tokens) == pytest.approx(fixed + tokens / rate + square * tokens**2, rel=2e-3)
    assert line.residual_share < 2e-3


@pytest.mark.parametrize("seed", range(5))
def test_t0_and_b_lie_in_their_intervals(seed: int) -> None:
    """3 % of noise: bandwidth within 10 %, T0 and B inside their intervals, widened by a quarter."""
    n, t = times(0.05, 4096 / 9e6, 0, 0.03, seed=seed)
    hits, cold = fit_hits(n, t), fit_prefill(*times(0.01, 1 / 6500, 0, 0.03, seed=seed))
    model = fitted(cold, hits, 4096)
    for figure, true in ((lambda m: m.bandwidth_bytes_per_s, 9e6), (lambda m: m.hit_fixed_s or 0.0, 0.05)):
        estimate = model.estimate(figure)
        assert estimate.low is not None
        assert estimate.high is not None
        margin = (estimate.high - estimate.low) / 4 + 0.02 * true
        assert estimate.low - margin <= true <= estimate.high + margin
    assert model.point.bandwidth_bytes_per_s == pytest.approx(9e6, rel=0.1)


def test_the_quadratic_term_is_taken_only_where_it_is_wanted() -> None:
    """A curve of attention is seen; noise on a line is not taken for one."""
    assert fit_prefill(*times(0.01, 1e-4, 5e-8, 0.01)).is_quadratic
    straight = [fit_prefill(*times(0.01, 1e-4, 0, 0.02, seed=seed)).is_quadratic for seed in range(20)]
    assert sum(straight) <= 3


def test_more_points_narrow_the_interval() -> None:
    """Four times the points, about half the width."""
    widths = []
    for copies in (5, 20):
        n, t = times(0.05, 4e-4, 0, 0.05, copies)
        low, high = interval([draw[1] for draw in fit_hits(n, t).draws])
        widths.append(high - low)
    assert widths[1] < 0.75 * widths[0]


@pytest.mark.parametrize(
    ("tokens", "seconds", "named"),
    [
        ([], [], "too few points"),
        ([100, 100, 100, 200, 200], [1, 1, 1, 2, 2], "at 2 lengths"),
        ([100, 200, 300, 300], [1, 2, 3, 3], "1 at the rarest"),
        ([100, 100, 200, 200, 300, math.nan], [1, 1, 2, 2, 3, 3], "not a number above zero"),
        ([100, 100, 200, 200, 300, 300], [1, 1, 2, 2, 0, 3], "not a number above zero"),
        ([100, 100, 200, 200, 300, 300], [3, 3, 2, 2, 1, 1], "do not take longer"),
    ],
)
def test_points_that_tell_nothing_are_refused(tokens: Sequence[float], seconds: Sequence[float], named: str) -> None:
    """Too few, not numbers, or not growing: said so, never a made-up rate."""
    for fit in (fit_hits, fit_prefill):
        with pytest.raises(ConfigError, match=named):
            fit(tokens, seconds)
