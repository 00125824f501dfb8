"""A rate from times."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.rate import mean_rate


@settings(deadline=None)
@given(rate=st.floats(1e-3, 1e6), portions=st.integers(2, 50))
def test_equal_times_are_a_rate_without_doubt(rate: float, portions: int) -> None:
    """The rate itself, in an interval of no width."""
    found = mean_rate([1 / rate] * portions, 1.0)
    assert (found.value, found.low, found.high) == pytest.approx((rate, rate, rate))


@settings(deadline=None)
@given(times=st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=20))
def test_the_rate_is_all_portions_over_all_time(times: list[float]) -> None:
    """And lies in its interval, which may have no upper end."""
    found = mean_rate(times, 10.0)
    assert found.value == pytest.approx(10 * len(times) / sum(times))
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low <= found.value * (1 + 1e-9)
    assert found.value * (1 - 1e-9) <= found.high <= math.inf


@pytest.mark.parametrize("times", [[], [0.0], [1.0, -1.0], [math.nan]])
def test_no_time_makes_no_rate(times: list[float]) -> None:
    """Refused, not divided by nothing."""
    with pytest.raises(ValueError, match="make no rate"):
        mean_rate(times, 1.0)


def test_one_portion_has_no_interval() -> None:
    """One time says nothing of how times differ."""
    found = mean_rate([2.0], 10.0)
    assert (found.value, found.low, found.high) == (5.0, None, None)
