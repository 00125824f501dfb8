"""The rate of a link."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stack.token_bucket import TokenBucket

RATES = st.sampled_from([1.0, 1e3, 1e6, 20e6, 200e6])
TAKES = st.lists(st.tuples(st.integers(0, 70_000), st.floats(0, 5)), min_size=1, max_size=60)


@given(RATES, TAKES)
def test_no_window_passes_more_than_its_rate(rate: float, takes: list[tuple[int, float]]) -> None:
    """Between any two moments passes at most rate x window, and one take that ends in it."""
    bucket = TokenBucket(rate)
    now, passed = 100.0, []
    for size, pause in takes:
        now += pause
        passed.append((bucket.take(size, now), size))
    largest = max(size for _, size in passed)
    for i in range(len(passed)):
        total = 0
        for at, size in passed[i:]:
            total += size
            assert total <= rate * (at - passed[i][0]) + largest + rate * 1e-9


@given(RATES, TAKES)
def test_a_busy_link_loses_nothing(rate: float, takes: list[tuple[int, float]]) -> None:
    """Bytes that were all there at the start have passed after exactly bytes / rate, whenever it was asked."""
    bucket = TokenBucket(rate)
    last = max(bucket.take(size, 100.0) for size, _ in takes)
    assert last == pytest.approx(100.0 + sum(size for size, _ in takes) / rate)


def test_idling_earns_no_burst() -> None:
    """After an idle hour a message takes as long as the first one did."""
    bucket = TokenBucket(1000.0)
    assert bucket.take(500, 0.0) == 0.5
    assert bucket.take(500, 3600.0) == 3600.5
    assert bucket.free_at == 3600.5


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_link_without_a_rate_is_refused(rate: float) -> None:
    """A rate that is not positive is a ValueError."""
    with pytest.raises(ValueError, match="bytes_per_s"):
        TokenBucket(rate)
