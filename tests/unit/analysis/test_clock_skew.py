"""harness.analysis.clock_skew: the difference of two clocks."""

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.clock_skew import clock_skew

REQUESTS = st.lists(st.tuples(*[st.integers(1, 10**9)] * 4), min_size=1, max_size=10)


@settings(deadline=None)
@given(REQUESTS, st.integers(-(10**13), 10**13))
def test_the_true_difference_is_within_the_bounds(requests: list[tuple[int, int, int, int]], skew_ns: int) -> None:
    """Whatever the clocks are apart, the bounds hold it; clocks that agree are not corrected."""
    events = []
    for sent, wait, lookup, rest in requests:
        begun, ended = sent + wait, sent + wait + lookup
        events.append((begun + skew_ns, ended + skew_ns, sent, ended + rest))
    skew = clock_skew(events)
    assert skew is not None
    assert not skew.contradictory
    assert skew.low_ns <= skew_ns <= skew.high_ns
    assert skew.low_ns <= skew.ns <= skew.high_ns
    if skew_ns == 0:
        assert skew.ns == 0


def test_events_that_no_difference_fits_are_said_to() -> None:
    """A clock that was set in between: nothing is corrected."""
    s = 10**9
    skew = clock_skew([(10 * s, 11 * s, 9 * s, 12 * s), (110 * s, 111 * s, 9 * s, 12 * s)])
    assert skew is not None
    assert skew.contradictory
    assert skew.ns == 0


def test_no_event_tells_nothing() -> None:
    """Without a request in the log there is no telling."""
    assert clock_skew([]) is None
