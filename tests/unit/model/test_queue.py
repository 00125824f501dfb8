"""Waiting and own time together, against a simulated queue and their own laws."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.model.queue import md1_wait_s, sojourn_s


@pytest.mark.parametrize("rho", [0.05, 0.2, 0.38, 0.55, 0.8])
def test_wait_is_that_of_a_simulated_queue(rho: float) -> None:
    """Lindley's recursion over 4,000,000 arrivals at a server of 1 s: p50 and p99 within 3 %, or 5 % of a service."""
    gaps = np.random.default_rng(7).exponential(1 / rho, 4_000_000)
    steps = np.concatenate([[0.0], np.cumsum(1 - gaps)])
    waits = steps - np.minimum.accumulate(steps)
    for quantile in (0.5, 0.99):
        expected = float(np.quantile(waits, quantile))
        assert md1_wait_s(rho, 1.0, quantile) == pytest.approx(expected, rel=0.03, abs=0.05)


@settings(deadline=None)
@given(
    rate=st.floats(1e-6, 1e6),
    service=st.floats(1e-6, 1e3),
    quantile=st.sampled_from([0.5, 0.9, 0.99]),
    factor=st.floats(1, 10),
)
def test_wait_grows_with_load_and_scales_with_time(rate: float, service: float, quantile: float, factor: float) -> None:
    """More arrivals never wait less; at 1 and above the wait has no end; in other units it is the same wait."""
    assume(not 1 - 1e-6 < rate * service < 1)
    wait = md1_wait_s(rate, service, quantile)
    assert md1_wait_s(rate * factor, service, quantile) >= wait * (1 - 1e-3)
    assert md1_wait_s(rate / factor, service * factor, quantile) == pytest.approx(wait * factor, rel=1e-6)
    assert math.isinf(wait) == (rate * service >= 1)


@settings(deadline=None)
@given(own=st.floats(1e-3, 10), rho=st.floats(0, 0.95), quantile=st.sampled_from([0.5, 0.9, 0.99]))
def test_equal_requests_wait_and_then_take_their_own_time(own: float, rho: float, quantile: float) -> None:
    """One own time, or the same in two parts: the wait is added."""
    expected = own + md1_wait_s(rho / own, own, quantile)
    assert sojourn_s([(own, 1.0)], rho / own, own, quantile) == pytest.approx(expected)
    assert sojourn_s([(own, 0.3), (own, 0.7)], rho / own, own, quantile) == pytest.approx(expected, rel=1e-6)


@settings(deadline=None)
@given(
    times=st.lists(st.floats(1e-3, 10), min_size=2, max_size=6),
    rho=st.floats(0, 1.2),
    quantile=st.sampled_from([0.5, 0.9, 0.99]),
)
def test_different_requests_lie_between_the_shortest_and_the_longest(
    times: list[float], rho: float, quantile: float
) -> None:
    """And without anybody else the quantile is that of the own times."""
    service = sum(times) / len(times)
    own = [(one, 1 / len(times)) for one in times]
    found = sojourn_s(own, rho / service, service, quantile)
    wait = md1_wait_s(rho / service, service, quantile)
    assert min(times) * (1 - 1e-6) <= found <= max(times) + wait
    if rho == 0:
        assert found == pytest.approx(float(np.quantile(times, quantile, method="inverted_cdf")), rel=1e-6)
