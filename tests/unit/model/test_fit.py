"""Fits: known lines are found again, too few points are refused."""

import itertools
import math
from collections.abc import Sequence
from random import Random

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


def test_where_the_square_takes_all_a_straight_line_is_told() -> None:
    """Times as a CPU engine took them: the best curve has no linear term, and R is told all the same."""
    milliseconds = {
        525: (87.3, 93.3, 93.8, 94.7),
        781: (124.5, 118.2, 138.4, 123.6),
        1293: (226.6, 234.0, 231.4, 223.9),
    }
    points = [(float(n), ms / 1e3) for n, times_ms in milliseconds.items() for ms in times_ms]
    line = fit_prefill([n for n, _ in points], [t for _, t in points])
    assert not line.is_quadratic
    assert line.at(1293) == pytest.approx(0.229, rel=0.1)
    assert len(line.draws) > 100


def test_more_points_narrow_the_interval() -> None:
    """Four times the points, about half the width, on the mean of eight machines."""
    widths = {5: 0.0, 20: 0.0}
    for copies, seed in itertools.product(widths, range(8)):
        n, t = times(0.05, 4e-4, 0, 0.05, copies, seed)
        low, high = interval([draw[1] for draw in fit_hits(n, t).draws])
        widths[copies] += high - low
    assert widths[20] < 0.7 * widths[5]


def test_a_point_far_from_the_others_moves_nothing() -> None:
    """One hit of twelve took twice as long, as happens where other things run: T0 and B stay within 3 %."""
    n, t = times(0.05, 4096 / 9e6, 0, 0.005)
    t[0] *= 2
    terms = fit_hits(n, t).terms
    assert terms[0] == pytest.approx(0.05, rel=0.1)
    assert terms[1] == pytest.approx(4096 / 9e6, rel=0.03)
    assert fit_hits(n, t).noise < 0.02 < fit_hits(n, t).residual_share


@settings(deadline=None, max_examples=20)
@given(random=st.randoms(use_true_random=False), fixed=st.floats(0.01, 0.2), rate=st.floats(1e6, 1e9))
def test_where_chunks_lie_is_not_taken_for_t0_or_b(random: Random, fixed: float, rate: float) -> None:
    """Hits of one length take as long as their fullest instance: with that known the line is exact again."""
    n = [float(length) for length in LENGTHS for _ in range(4)]
    slowdowns = [random.choice([1.6, 2.4, 3.2]) for _ in n]
    t = [fixed + one * 4096 / rate * slowdown for one, slowdown in zip(n, slowdowns, strict=True)]
    line = fit_hits(n, t, slowdowns)
    assert line.terms[0] == pytest.approx(fixed, rel=1e-3)
    assert 4096 / line.terms[1] == pytest.approx(rate, rel=1e-3)
    assert line.residual_share < 1e-3


@pytest.mark.parametrize(
    ("tokens", "seconds", "named"),
    [
        ([], [], "too few points"),
        ([100, 100, 100, 200, 200], [1, 1, 1, 2, 2], "at 2 lengths"),
        ([100, 200, 300, 300], [1, 2, 3, 3], "1 at the rarest"),
        ([100, 100, 200, 200, 300, math.nan], [1, 1, 2, 2, 3, 3], "not a number above zero"),
        ([100, 100, 200, 200, 300, 300], [1, 1, 2, 2, 0, 3], "not a number above zero"),
    ],
)
def test_points_that_tell_nothing_are_refused(tokens: Sequence[float], seconds: Sequence[float], named: str) -> None:
    """Too few, or not numbers: said so, never a made-up rate."""
    for fit in (fit_hits, fit_prefill):
        with pytest.raises(ConfigError, match=named):
            fit(tokens, seconds)


def test_longer_prompts_that_take_no_longer() -> None:
    """Computing has then no rate, which is an error; a load has no bandwidth that could be seen, and T0 is all."""
    tokens, seconds = [100, 100, 200, 200, 300, 300], [3.0, 3.0, 2.0, 2.0, 1.0, 1.0]
    with pytest.raises(ConfigError, match="do not take longer"):
        fit_prefill(tokens, seconds)
    model = fitted(fit_prefill(*times(0.01, 1 / 6500, 0, 0.01)), fit_hits(tokens, seconds), 4096)
    assert math.isinf(model.point.bandwidth_bytes_per_s)
    assert 1 <= (model.point.hit_fixed_s or 0) <= 3
