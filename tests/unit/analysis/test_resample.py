"""Percentiles and their intervals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.analysis.measured import FloatArray
from harness.analysis.resample import STATISTICS, latency

VALUES = arrays(np.float64, st.integers(1, 40), elements=st.floats(0.1, 1e6))


@settings(deadline=None, max_examples=30)
@given(repeats=st.lists(VALUES, min_size=1, max_size=3))
def test_an_interval_holds_its_value(repeats: list[FloatArray]) -> None:
    """Every value lies within the range of the data, and within its own interval, which never reaches below zero."""
    measured = latency(repeats, resamples=20)
    assert measured is not None
    values = np.concatenate(repeats)
    least, most = values.min() * (1 - 1e-9), values.max() * (1 + 1e-9)
    assert measured.n == len(values)
    for statistic in STATISTICS:
        estimate = measured.estimate(statistic)
        assert least <= estimate.value <= most
        if estimate.low is not None and estimate.high is not None:
            assert 0 <= estimate.low <= estimate.value * (1 + 1e-9)
            assert estimate.high >= estimate.value * (1 - 1e-9)


@settings(deadline=None, max_examples=30)
@given(values=VALUES, gaps=st.lists(st.booleans(), min_size=40, max_size=40))
def test_a_resample_is_drawn_from_the_data(values: FloatArray, gaps: list[bool]) -> None:
    """Counting how often each value was drawn gives the same percentiles as drawing them would."""
    values = np.where(np.array(gaps[: len(values)]), np.nan, values)
    measured = latency([values], resamples=20)
    if measured is None:
        return
    random, n = np.random.default_rng(0), len(values)
    block = max(1, min(2 * math.isqrt(n), n // 8))
    starts = (random.random((20, -(-n // block))) * n).astype(int)
    for row, draws in zip(starts, measured.draws, strict=True):
        drawn = np.concatenate([values[(start + np.arange(block)) % n] for start in row])[:n]
        drawn = drawn[~np.isnan(drawn)]
        if drawn.size:
            assert draws == pytest.approx([np.percentile(drawn, 50), drawn.mean(), np.percentile(drawn, 99)])
        else:
            assert np.isnan(draws).all()


@settings(deadline=None, max_examples=30)
@given(repeats=st.lists(VALUES, min_size=1, max_size=3))
def test_percentiles_are_exact(repeats: list[FloatArray]) -> None:
    """The values are numpy's own percentiles and mean of the whole table."""
    measured, values = latency(repeats, resamples=2), np.concatenate(repeats)
    assert measured is not None
    expected = [np.percentile(values, 50), values.mean(), np.percentile(values, 99)]
    assert [measured.estimate(statistic).value for statistic in STATISTICS] == pytest.approx(expected)


@settings(deadline=None, max_examples=30)
@given(values=VALUES, factor=st.floats(0.1, 10))
def test_equal_plans_are_paired(values: FloatArray, factor: float) -> None:
    """An arm that is k times as slow in every request has a ratio of k, and no doubt about it."""
    base, slower = latency([values], resamples=20), latency([values * factor], resamples=20)
    assert base is not None
    assert slower is not None
    ratio = slower.ratio(base, "p99")
    assert ratio.value == pytest.approx(factor)
    if len(values) > 1:
        assert [ratio.low, ratio.high] == pytest.approx([factor, factor])


def test_gaps_do_not_count() -> None:
    """Failed requests (NaN) are in no percentile; nothing but failures has none."""
    measured = latency([np.array([np.nan, 2.0, np.nan, 4.0])], resamples=20)
    assert measured is not None
    assert (measured.n, measured.estimate("mean").value) == (2, 3.0)
    assert latency([np.array([np.nan])]) is None
    assert latency([]) is None


def test_one_value_has_no_interval() -> None:
    """One request says nothing about how sure its number is."""
    measured = latency([np.array([5.0])], resamples=20)
    assert measured is not None
    assert (measured.estimate("p50").low, measured.estimate("p50").high) == (None, None)


def test_same_values_same_interval() -> None:
    """A report made twice says the same."""
    values = np.random.default_rng(1).exponential(size=50)
    first, second = latency([values]), latency([values])
    assert first is not None
    assert second is not None
    assert first.estimate("p99") == second.estimate("p99")


def test_blocks_widen_the_interval_of_correlated_requests() -> None:
    """Requests that share a queue are worth fewer than independent ones: the same values in order are less sure."""
    shuffled = np.random.default_rng(2).exponential(size=400)
    in_order = np.sort(shuffled)
    independent, correlated = latency([shuffled], resamples=300), latency([in_order], resamples=300)
    assert independent is not None
    assert correlated is not None
    widths = []
    for measured in (independent, correlated):
        estimate = measured.estimate("mean")
        assert estimate.low is not None
        assert estimate.high is not None
        widths.append(estimate.high - estimate.low)
    assert widths[1] > 2 * widths[0]


def test_method_says_what_was_resampled() -> None:
    """The method names the blocks, and that there was one repeat, or how many."""
    values = np.arange(1.0, 101.0)
    one, three = latency([values], resamples=10), latency([values] * 3, resamples=10)
    assert one is not None
    assert three is not None
    assert one.method == "95 % bootstrap, 10 resamples of circular blocks of 12 consecutive requests (one repeat)"
    assert three.method == "95 % interval by Student's t over 3 repeats"


@settings(deadline=None, max_examples=30)
@given(level=st.floats(1, 100), spread=st.floats(1.5, 10))
def test_repeats_that_differ_widen_the_interval(level: float, spread: float) -> None:
    """The unit is the run: runs that disagree give an interval that holds both, equal ones none."""
    apart = latency([np.full(30, level), np.full(30, level * spread)], resamples=100)
    alike = latency([np.full(30, level)] * 2, resamples=100)
    assert apart is not None
    assert alike is not None
    estimate, same = apart.estimate("mean"), alike.estimate("mean")
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < level < level * spread < estimate.high
    assert [same.low, same.high] == pytest.approx([level, level])


def test_many_values_are_resampled_less_often() -> None:
    """The number of resamples times the values stays the same beyond 4,000 values, and never falls below 200."""
    many, more = (latency([np.arange(1.0, n + 1)], 1000) for n in (8_000, 200_000))
    assert many is not None
    assert more is not None
    assert (len(many.draws), len(more.draws)) == (500, 200)
