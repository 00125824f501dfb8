"""A trace in numbers."""

import statistics
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.trace import SHIPPED, Trace, TraceRequest, make_trace, read_trace
from harness.trace.describe import describe, describe_times
from tests.fakes.drawn_traces import BLOCK, shared_tokens, traces

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "traces"


@given(traces())
def test_figures_are_those_of_the_rows(trace: Trace) -> None:
    """Counts, lengths and shares, each counted the long way."""
    rows = trace.requests
    found = describe(iter(rows), BLOCK)

    assert found.rows == len(rows)
    assert found.input_tokens.total == sum(one.input_tokens for one in rows)
    assert found.input_tokens.p50 == statistics.median(one.input_tokens for one in rows)
    assert found.output_tokens.max == max(one.output_tokens for one in rows)
    assert found.output_tokens.mean == pytest.approx(statistics.fmean(one.output_tokens for one in rows))
    assert found.longest_request_tokens == max(one.input_tokens + one.output_tokens for one in rows)
    assert found.blocks == sum(len(one.blocks) for one in rows)
    assert found.different_blocks == len({one.blocks[: i + 1] for one in rows for i in range(len(one.blocks))})
    assert found.rows_without_ids == sum(not one.blocks for one in rows)
    assert found.sessions == len({one.session for one in rows} - {""})
    assert found.rows_in_sessions == sum(bool(one.session) for one in rows)
    assert found.turns_that_wait == sum(one.delay_us is not None for one in rows)


@given(traces())
def test_hits_are_those_of_an_infinite_cache(trace: Trace) -> None:
    """By tokens, by blocks, and in whole engine blocks and chunks with the last token computed."""
    shares = describe(trace.requests, BLOCK).sharing
    total = sum(one.input_tokens for one in trace.requests)
    if not any(one.blocks for one in trace.requests):
        assert shares.by_tokens is None
        return
    shared = [
        max((shared_tokens(one, other, BLOCK) for other in trace.requests[:place]), default=0)
        for place, one in enumerate(trace.requests)
    ]
    assert shares.by_tokens == pytest.approx(sum(shared) / total)
    assert shares.by_blocks == pytest.approx(
        sum(-(-tokens // BLOCK) for tokens in shared) / sum(len(one.blocks) for one in trace.requests)
    )
    for share, granule in ((shares.in_engine_blocks, 16), (shares.in_chunks, 256)):
        usable = [
            min(tokens // granule, (one.input_tokens - 1) // granule) * granule
            for tokens, one in zip(shared, trace.requests, strict=True)
        ]
        assert share == pytest.approx(sum(usable) / total)


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=60).map(sorted))
def test_times_are_those_of_the_arrivals(arrivals_us: list[int]) -> None:
    """Span, rate, gaps and shared times, for any arrivals."""
    times = describe_times(np.array(arrivals_us, dtype=np.int64))
    gaps = [later - earlier for earlier, later in pairwise(arrivals_us)]
    counts = Counter(arrivals_us)

    assert times.span_s == (arrivals_us[-1] - arrivals_us[0]) / 1e6
    assert times.rows_sharing_a_time == sum(count for count in counts.values() if count > 1)
    assert times.most_at_one_time == max(counts.values())
    if sum(gaps) == 0:
        assert (times.rate_per_s, times.gap_cv, times.step_s) == (None, None, None)
        return
    assert times.rate_per_s == pytest.approx(len(gaps) / times.span_s)
    assert times.longest_gap_s == max(gaps) / 1e6
    if len(gaps) > 1:
        assert times.gap_cv == pytest.approx(statistics.stdev(gaps) / statistics.fmean(gaps))
    steps = [gap for gap in gaps if gap]
    assert times.step_s is not None
    assert min(steps) <= times.step_s * 1e6 + 1e-3 < 2 * min(steps) + 2e-3


def test_dispersion_tells_even_poisson_and_bursty_arrivals_apart() -> None:
    """In windows of about ten arrivals: 0 for even gaps, about 1 for Poisson, more for gamma gaps of CV 2.5."""
    even, poisson, bursty = (
        describe(make_trace(SHIPPED[name]).requests, 512).times.dispersion
        for name in ("trace-16k-683-deterministic", "trace-16k-683", "trace-16k-683-gamma")
    )

    assert even is not None
    assert even < 0.1
    assert poisson == pytest.approx(1, abs=0.35)
    assert bursty is not None
    assert bursty > 2


def test_a_thousand_at_each_tick_are_even() -> None:
    """Rows recorded in ticks of 3 s: the step is 3 s and every window has as many."""
    times = describe_times(np.repeat(np.arange(100) * 3_000_000, 20).astype(np.int64))

    assert (times.step_s, times.most_at_one_time, times.rows_sharing_a_time) == (3.0, 20, 2000)
    assert (times.dispersion, times.dispersion_window_s) == (0.0, 3.0)


def test_the_shipped_trace() -> None:
    """Nine of ten requests repeat a prefix, and a cache must hold most of the 68 to have it still."""
    found = describe(make_trace(SHIPPED["trace-16k-683"]).requests, 512)

    assert found.sharing.in_chunks == pytest.approx(16_384 * (683 - 68) / found.input_tokens.total)
    distances = found.sharing.reuse_distance_tokens
    assert distances is not None
    assert distances["p50"] == pytest.approx(57 * 16_519, rel=0.02)
    assert distances["max"] <= 69 * 16_640


def test_rows_must_come_in_order() -> None:
    """Rows out of order, and no rows, have no description."""
    late, early = TraceRequest(0, "", 0, 5, 1, 1, ()), TraceRequest(1, "", 0, 4, 1, 1, ())
    with pytest.raises(ValueError, match="row 1 arrives before"):
        describe([late, early], 512)
    with pytest.raises(ValueError, match="no rows"):
        describe([], 512)


@pytest.mark.skipif(not SHARED.is_dir(), reason="no folder `shared` beside the checkout")
def test_mooncake_conversation_has_its_measured_shape() -> None:
    """12,031 rows, all in ticks of 3 s, 28 at one; 37.4 % of the tokens and 36.6 % of the blocks hit."""
    found = describe(read_trace(SHARED / "mooncake_conversation.jsonl").requests, 512)

    assert (found.rows, found.times.most_at_one_time, found.longest_request_tokens) == (12_031, 28, 126_527)
    assert (found.times.step_s, found.times.rows_sharing_a_time) == (3.0, 12_031)
    assert found.times.span_s == pytest.approx(3537, abs=0.01)
    assert found.times.dispersion == pytest.approx(1.10, abs=0.005)
    assert found.times.dispersion_per_minute == pytest.approx(2.91, abs=0.005)
    assert (found.input_tokens.p10, found.input_tokens.p50, found.input_tokens.max) == (964, 6909, 126_195)
    assert found.input_tokens.mean == pytest.approx(12_035.06, abs=0.01)
    assert found.output_tokens.mean == pytest.approx(342.6, abs=0.05)
    assert found.sharing.by_tokens == pytest.approx(0.3736, abs=5e-5)
    assert found.sharing.by_blocks == pytest.approx(0.3664, abs=5e-5)
    assert found.different_blocks == 182_790
