"""Numbers as text."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.wording import count, digits, rate, times_ms


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (7.849, "7.85"),
        (192.4, "192"),
        (3004.2, "3,004"),
        (0.0384, "0.0384"),
        (9.999, "10.0"),
        (math.inf, "inf"),
    ],
)
def test_digits(value: float, text: str) -> None:
    """Three significant digits, no exponent, thousands separated."""
    assert digits(value) == text


@settings(deadline=None)
@given(value=st.floats(1e-6, 1e12), significant=st.integers(1, 5))
def test_digits_are_close(value: float, significant: int) -> None:
    """What is printed is the value, to within half a unit of its last digit."""
    assert float(digits(value, significant).replace(",", "")) == pytest.approx(value, rel=0.5 * 10 ** (1 - significant))


def test_units() -> None:
    """Rates take the unit that fits, times one common unit, small counts are words."""
    assert [rate(value) for value in (12.8e6, 2.53e9, 950.0, 1500.0)] == [
        "12.8 MB/s",
        "2.53 GB/s",
        "950 B/s",
        "1.50 kB/s",
    ]
    assert times_ms([3004.0, 380.0]) == ["3.0 s", "0.38 s"]
    assert times_ms([192.0, 31.4]) == ["192 ms", "31.4 ms"]
    assert [count(number) for number in (1, 4, 11)] == ["one", "four", "11"]
