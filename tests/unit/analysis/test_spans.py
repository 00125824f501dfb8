"""harness.analysis.spans: spans of time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.spans import Span, alone, covered_ns, in_flight, shares_ns

SPANS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20)).map(lambda span: (span[0], span[0] + span[1])), max_size=8
)


@settings(deadline=None)
@given(SPANS)
def test_shares_are_those_of_a_server_that_divides_every_instant(spans: list[Span]) -> None:
    """Instant by instant: each that runs gets an equal part, so all shares together are the time in which any ran."""
    expected = [0.0] * len(spans)
    for instant in range(70):
        running = [at for at, (start, end) in enumerate(spans) if start <= instant < end]
        for at in running:
            expected[at] += 1 / len(running)
    assert shares_ns(spans) == pytest.approx(expected)


@settings(deadline=None)
@given(SPANS)
def test_the_number_in_flight_is_counted_at_every_instant(spans: list[Span]) -> None:
    """From each change on as many run as have begun and not ended."""
    times, running = in_flight(spans)
    for t, count in zip(times.tolist(), running.tolist(), strict=True):
        assert count == sum(start <= t < end for start, end in spans)


@settings(deadline=None)
@given(SPANS)
def test_alone_is_what_no_other_overlaps(spans: list[Span]) -> None:
    """The same as comparing each with each, for spans that last."""
    lasting = [span for span in spans if span[0] < span[1]]
    expected = [
        not any(at != other and a[0] < b[1] and b[0] < a[1] for other, b in enumerate(lasting))
        for at, a in enumerate(lasting)
    ]
    assert alone(lasting) == expected


@settings(deadline=None)
@given(SPANS, st.integers(0, 40), st.integers(0, 40))
def test_what_is_covered_is_counted_instant_by_instant(spans: list[Span], start: int, end: int) -> None:
    """Each instant of the span counts once, however many of the others cover it; a span that is none has nothing."""
    expected = sum(any(a <= t < b for a, b in spans) for t in range(start, end))
    assert covered_ns((start, end), spans) == expected
