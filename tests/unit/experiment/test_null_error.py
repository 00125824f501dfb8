"""A client's claims against what a null server saw."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.experiment.null_error import Claim, Sighting, Spread, client_error, sightings_of

MS = 1_000_000


def test_each_error_by_its_definition() -> None:
    """Two requests whose errors are known to the nanosecond."""
    claims = [
        Claim("a", 0, 1 * MS, [61 * MS, 82 * MS], 83 * MS),
        Claim("b", 100 * MS, 100 * MS, [155 * MS, 174 * MS], 175 * MS),
    ]
    seen = sightings_of([["a", 3 * MS, [53 * MS, 73 * MS]], ["b", 101 * MS, [151 * MS, 171 * MS]]])
    error = client_error("us", "work", 3, claims, seen, cpu_s=0.035)
    assert (error.requests, error.failed) == (3, 1)
    assert error.send_lag_ms == Spread(0.5, 0.99, 1.0, 2)
    assert error.arrival_error_ms == Spread(2.0, 2.98, 3.0, 2)
    assert error.ttft_error_ms == Spread(7.5, 9.95, 10.0, 2)  # 60 against 50, and 55 against 50
    assert error.itl_error_ms == Spread(1.0, 1.0, 1.0, 2)  # 21 and 19 against 20
    assert error.rate_per_s == pytest.approx(2 / 0.175)
    assert error.cpu_share is None


def test_processor_time_is_told_of_a_second_or_more() -> None:
    """Less time than that would make connecting, which comes before, look like sending."""
    claims = [Claim("a", 0, 0, [1 * MS], 2000 * MS)]
    error = client_error("us", "work", 1, claims, sightings_of([["a", 0, [1 * MS]]]), cpu_s=0.5)
    assert error.cpu_share == pytest.approx(0.25)


def test_a_client_without_a_schedule_has_no_lag() -> None:
    """Without due times there is no lag and no arrival error, and the rest stands."""
    error = client_error("peer", "work", 1, [Claim("a", None, 5, [10], 12)], {"a": Sighting(6, [9])}, None)
    assert (error.send_lag_ms, error.arrival_error_ms, error.itl_error_ms, error.cpu_share) == (None, None, None, None)
    assert error.ttft_error_ms is not None


def test_nothing_seen_is_no_error() -> None:
    """A server that saw nothing: all failed, no figures, no exception."""
    error = client_error("us", "work", 2, [Claim("a", 0, 0, [1], 2)], {}, 1.0)
    assert (error.failed, error.rate_per_s, error.ttft_error_ms) == (2, 0.0, None)


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20), st.integers(0, 10**12))
def test_the_truth_has_no_error(gaps: list[int], start: int) -> None:
    """A client that says exactly what the server saw has errors of zero, wherever the clock began."""
    times = [start + abs(gap) for gap in gaps]
    claim, sighting = Claim("a", start, start, times, max(times)), Sighting(start, times)
    error = client_error("us", "work", 1, [claim], {"a": sighting}, None)
    for spread in (error.send_lag_ms, error.arrival_error_ms, error.ttft_error_ms, error.itl_error_ms):
        assert spread is None or (spread.p50, spread.p99, spread.max) == (0, 0, 0)
