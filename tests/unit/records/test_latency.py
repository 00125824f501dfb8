"""harness.records.latency: what each latency is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.records import Outcome, RequestRecord
from harness.records.latency import latencies, mean, percentile
from tests.fakes.records import CELL, request_records

FINITE = st.floats(-1e9, 1e9, allow_nan=False)

PLAIN = RequestRecord(
    cell=CELL,
    seq=0,
    row=0,
    session="s",
    prompt_tokens_planned=8,
    max_tokens=4,
    due_ns=1_000_000,
    outcome=Outcome.OK,
    sent_ns=3_000_000,
    first_token_ns=13_000_000,
    last_token_ns=43_000_000,
    done_ns=44_000_000,
    chunk_ns=(13_000_000, 23_000_000, 43_000_000),
    completion_tokens=4,
)


def test_each_latency_lies_between_its_two_stamps() -> None:
    """TTFT and E2EL count from sent, the due TTFT from due, TPOT leaves the first token out, ITL has one gap a pair."""
    seen = latencies(PLAIN)
    assert (seen.ttft_ms, seen.ttft_due_ms, seen.e2el_ms, seen.send_lag_ms) == (10.0, 12.0, 41.0, 2.0)
    assert seen.tpot_ms == 10.0
    assert seen.itl_ms == (10.0, 20.0)


def test_a_truncated_request_keeps_the_ttft_it_had() -> None:
    """An outcome other than ok takes no measured latency away."""
    seen = latencies(replace(PLAIN, outcome=Outcome.TRUNCATED, done_ns=None, completion_tokens=None))
    assert (seen.ttft_ms, seen.tpot_ms, seen.e2el_ms) == (10.0, None, None)


def test_a_single_token_has_no_time_per_output_token() -> None:
    """With one token there is nothing after the first: None, not zero and not a division by zero."""
    assert latencies(replace(PLAIN, completion_tokens=1)).tpot_ms is None
    assert latencies(replace(PLAIN, completion_tokens=0)).tpot_ms is None


@settings(deadline=None, max_examples=40)
@given(request_records())
def test_what_did_not_happen_has_no_latency(record: RequestRecord) -> None:
    """A latency is there exactly when both of its stamps are; one that is missing is None, never 0."""
    seen = latencies(record)
    sent, first = record.sent_ns is not None, record.first_token_ns is not None
    assert (seen.ttft_ms is not None) == (sent and first)
    assert (seen.ttft_due_ms is not None) == first
    assert (seen.send_lag_ms is not None) == sent
    assert (seen.e2el_ms is not None) == (sent and record.done_ns is not None)
    assert len(seen.itl_ms) == max(0, len(record.chunk_ns) - 1)


@settings(deadline=None, max_examples=40)
@given(request_records())
def test_response_latency_is_service_latency_and_send_lag(record: RequestRecord) -> None:
    """TTFT from due = send lag + TTFT from sent."""
    seen = latencies(record)
    if seen.ttft_ms is not None and seen.ttft_due_ms is not None and seen.send_lag_ms is not None:
        assert seen.ttft_due_ms == pytest.approx(seen.send_lag_ms + seen.ttft_ms, abs=1e-5)


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=20).map(sorted))
def test_inter_token_gaps_add_up_to_the_span(chunk_ns: list[int]) -> None:
    """The gaps between events sum to last minus first."""
    gaps = latencies(replace(PLAIN, chunk_ns=tuple(chunk_ns))).itl_ms
    assert sum(gaps) == pytest.approx((chunk_ns[-1] - chunk_ns[0]) / 1e6)


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=50), st.floats(0, 100))
def test_a_percentile_is_the_one_numpy_calls_linear(values: list[float], percent: float) -> None:
    """Our percentile and numpy's default agree for every sample and every rank."""
    assert percentile(values, percent) == pytest.approx(float(np.percentile(values, percent)), rel=1e-9, abs=1e-6)


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=50), st.tuples(st.floats(0, 100), st.floats(0, 100)))
def test_a_percentile_never_falls_as_its_rank_rises(values: list[float], ranks: tuple[float, float]) -> None:
    """Percentiles are monotone in the rank and stay within the sample."""
    low, high = (percentile(values, rank) for rank in sorted(ranks))
    assert low is not None
    assert high is not None
    assert min(values) <= low <= high + 1e-6 <= max(values) + 2e-6


def test_no_values_have_no_percentile_and_no_mean() -> None:
    """An empty sample gives None, and a rank outside 0..100 is refused."""
    assert percentile([], 50) is None
    assert mean([]) is None
    with pytest.raises(ValueError, match="101"):
        percentile([1.0], 101)
