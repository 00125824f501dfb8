"""Promises of harness.config.units."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.units import Bandwidth, parse_bandwidth, parse_bytes, parse_ratio, parse_seconds


@pytest.mark.parametrize(
    ("text", "expected"), [("1GiB", 2**30), ("20 MB", 20_000_000), ("1.5kB", 1500), ("7B", 7), ("0.5KiB", 512)]
)
def test_a_size_is_a_number_and_a_unit(text: str, expected: int) -> None:
    """Binary and decimal units keep their meaning."""
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["1", "GiB", "1 gib", "-1GiB", "1e3MB", "", "1GiB/s", None, 5])
def test_a_size_without_a_known_unit_is_refused(text: object) -> None:
    """A bare number is not a size: of what?"""
    with pytest.raises(ValueError, match="is not a size"):
        parse_bytes(text)


@pytest.mark.parametrize(("text", "expected"), [("250ms", 0.25), ("2 s", 2.0), ("3min", 180.0), ("5us", 5e-6)])
def test_a_time_is_a_number_and_a_unit(text: str, expected: float) -> None:
    """Times come out in seconds."""
    assert parse_seconds(text) == pytest.approx(expected)


def test_a_bandwidth_is_absolute_or_a_multiple_of_bstar() -> None:
    """Both forms resolve to bytes a second, the second one with this machine's B*."""
    assert parse_bandwidth("20MB/s") == Bandwidth(bytes_per_s=20e6)
    assert parse_bandwidth("0.34 Bstar").resolve(100e6) == pytest.approx(34e6)
    assert parse_bandwidth("20MB/s").resolve(100e6) == 20e6


@pytest.mark.parametrize("text", ["20MB", "0MB/s", "0 Bstar", "1 bstar", "20/s", "20MB/h", 3])
def test_what_is_no_rate_is_refused(text: object) -> None:
    """A bandwidth has a unit a second, and is above zero."""
    with pytest.raises(ValueError, match=r"rate|bandwidth"):
        parse_bandwidth(text)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_ratio_is_exact(over: int, under: int) -> None:
    """a/b is read as the fraction it is."""
    assert parse_ratio(f"{over}/{under}") == Fraction(over, under)


def test_a_ratio_may_have_decimals_and_no_denominator() -> None:
    """1/12.8 is 5/64 exactly, and 2 is 2."""
    assert parse_ratio("1/12.8") == Fraction(5, 64)
    assert parse_ratio(2) == 2


@pytest.mark.parametrize("text", ["1/0", "0", "-1/2", "x", True, "1/2/3"])
def test_what_is_no_ratio_is_refused(text: object) -> None:
    """A ratio is above zero."""
    with pytest.raises(ValueError, match="ratio"):
        parse_ratio(text)
