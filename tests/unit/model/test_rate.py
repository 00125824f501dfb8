"""A steady rate from moments."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.rate import steady_rate


@settings(deadline=None)
@given(rate=st.floats(1e-3, 1e6), portions=st.integers(2, 200))
def test_equal_steps_are_a_rate_without_doubt(rate: float, portions: int) -> None:
    """The rate itself, in an interval of no width."""
    found = steady_rate([nth / rate for nth in range(portions + 1)], 1.0)
    assert found.value == pytest.approx(rate)
    assert found.low == pytest.approx(rate, rel=1e-3)
    assert found.high == pytest.approx(rate, rel=1e-3)


def test_uneven_steps_widen_the_interval() -> None:
    """Slow and fast thirds: the mean lies between, and the interval has both sides."""
    found = steady_rate([0, 1, 2, 3, 3.5, 4, 4.5, 5.5, 6.5], 10.0)
    assert found.value == pytest.approx(80 / 6.5)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


@pytest.mark.parametrize("stamps", [[], [1.0], [2.0, 2.0], [3.0, 1.0]])
def test_no_time_makes_no_rate(stamps: list[float]) -> None:
    """Refused, not divided by nothing."""
    with pytest.raises(ValueError, match="make no rate"):
        steady_rate(stamps, 1.0)


def test_one_portion_has_no_interval() -> None:
    """One step says nothing of how steps differ."""
    found = steady_rate([0.0, 2.0], 10.0)
    assert (found.value, found.low, found.high) == (5.0, None, None)
