"""Traces with other lengths."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import TraceError
from harness.trace import MakeSpec, Trace, TraceRequest, make_trace
from harness.trace.lengths import OverLength, fit_lengths, scale_lengths, scale_to_chunks
from tests.fakes.drawn_traces import BLOCK, shared_tokens, traces


def trace_of(*requests: TraceRequest, block_size: int = 512) -> Trace:
    """A trace of these requests."""
    return Trace(requests, block_size, "here", "unstated")


SMALL = make_trace(MakeSpec(requests=30, prefixes=4, prefix_tokens=1024))


def test_scale_of_the_shipped_config() -> None:
    """1/12.8 makes a prefix of 16,384 tokens 1,280 long, in blocks of 40."""
    scaled = scale_lengths(make_trace(MakeSpec(requests=5)), Fraction(10, 128))

    assert scaled.block_size == 40
    assert all(1280 + 3 <= request.input_tokens <= 1280 + 19 for request in scaled.requests)


@settings(deadline=None)
@given(
    st.integers(1, 96).map(lambda k: Fraction(k, 32)),
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 99)), min_size=1, max_size=9),
)
def test_scaling_keeps_what_is_shared(ratio: Fraction, drawn: list[tuple[int, int]]) -> None:
    """Whole blocks scale exactly, tails and outputs to the nearest token but at least one, and ids stay."""
    before = trace_of(
        *(TraceRequest(i, "", 0, i, n, out, tuple(range(-(-n // 32)))) for i, (n, out) in enumerate(drawn)),
        block_size=32,
    )

    after = scale_lengths(before, ratio)

    assert after.block_size == 32 * ratio
    for was, now in zip(before.requests, after.requests, strict=True):
        whole = was.input_tokens // 32
        tail, tail_was = now.input_tokens - whole * after.block_size, was.input_tokens % 32
        assert abs(tail - tail_was * ratio) <= Fraction(1, 2) or tail == 1
        assert (tail > 0) == (tail_was > 0)
        assert tail <= after.block_size
        assert now.output_tokens >= 1
        assert abs(now.output_tokens - was.output_tokens * ratio) <= Fraction(1, 2) or now.output_tokens == 1
        assert replace(now, input_tokens=was.input_tokens, output_tokens=was.output_tokens) == was


def test_halves_are_rounded_up() -> None:
    """A tail of 5 tokens at 1/2 is 3, and an output of 1 stays 1."""
    scaled = scale_lengths(trace_of(TraceRequest(0, "", 0, 0, 517, 1, (0, 1))), Fraction(1, 2))

    assert (scaled.requests[0].input_tokens, scaled.requests[0].output_tokens) == (256 + 3, 1)


@pytest.mark.parametrize(
    ("ratio", "remedy"),
    [
        (Fraction(1, 13), "use 39/512 or 40/512"),
        (Fraction(1, 1000), "use 1/512"),
        (Fraction(0), "use 1/512"),
        (Fraction(-1), "use 1/512"),
    ],
)
def test_a_ratio_that_splits_blocks_is_refused(ratio: Fraction, remedy: str) -> None:
    """A block must stay a whole number of tokens; the error names the nearest ratios that do."""
    with pytest.raises(TraceError) as caught:
        scale_lengths(SMALL, ratio)

    assert caught.value.remedy == f"{remedy}, or give a chunk"


def half_up(value: Fraction) -> int:
    """The nearest whole number."""
    return int((value + Fraction(1, 2)) // 1)


@given(traces(), st.integers(1, 96).map(lambda k: Fraction(k, 32)), st.sampled_from([1, 7, 16, 40, 256]))
def test_scaling_to_chunks_shares_whole_chunks(trace: Trace, ratio: Fraction, chunk: int) -> None:
    """Two prompts share the nearest number of chunks to what they shared; lengths follow the same rule; times stay."""
    after = scale_to_chunks(trace, ratio, chunk)

    assert after.block_size == chunk
    for was, now in zip(trace.requests, after.requests, strict=True):
        whole, tail = divmod(was.input_tokens, BLOCK)
        chunks = half_up(whole * BLOCK * ratio / chunk)
        scaled_tail = max(1, half_up(tail * ratio)) if tail else 0
        assert now.input_tokens == max(1, chunks * chunk + scaled_tail)
        hashed = was.input_tokens if len(was.blocks) * BLOCK >= was.input_tokens else len(was.blocks) * BLOCK
        assert len(now.blocks) == half_up(hashed // BLOCK * BLOCK * ratio / chunk) + (
            -(-scaled_tail // chunk) if hashed % BLOCK else 0
        )
        kept = {"input_tokens": was.input_tokens, "output_tokens": was.output_tokens, "blocks": was.blocks}
        assert replace(now, **kept) == was
    for (one, new_one), (other, new_other) in combinations(zip(trace.requests, after.requests, strict=True), 2):
        shared = shared_tokens(one, other, BLOCK)
        if shared % BLOCK == 0:
            assert shared_tokens(new_one, new_other, chunk) == half_up(shared * ratio / chunk) * chunk
        else:  # the same prompt, its tail included
            assert shared_tokens(new_one, new_other, chunk) == new_one.input_tokens


@given(traces(), st.integers(1, 96).map(lambda k: Fraction(k, 32)), st.sampled_from([1, 7, 16, 40]))
def test_a_scaled_id_stands_for_one_size(trace: Trace, ratio: Fraction, chunk: int) -> None:
    """As in what is read: no id is a whole chunk here and a part of one there."""
    sizes: dict[int, int] = {}
    for request in scale_to_chunks(trace, ratio, chunk).requests:
        for position, block in enumerate(request.blocks):
            covered = min(chunk, request.input_tokens - position * chunk)
            assert covered >= 1
            assert sizes.setdefault(block, covered) == covered


@pytest.mark.parametrize(("ratio", "chunk"), [(Fraction(0), 256), (Fraction(-1), 256), (Fraction(1), 0)])
def test_refuses_scales_that_are_none(ratio: Fraction, chunk: int) -> None:
    """Ratio and chunk are above zero."""
    with pytest.raises(TraceError, match="length_scale is"):
        scale_to_chunks(SMALL, ratio, chunk)


LONG = trace_of(
    TraceRequest(7, "", 0, 5, 600, 100, (0, 1)),
    TraceRequest(8, "", 0, 9, 690, 11, (2, 3)),
    TraceRequest(9, "", 0, 12, 700, 5, (4, 5)),
)


def test_a_request_that_does_not_fit_is_named() -> None:
    """By its row in the source, its lengths and the limit; what fits exactly fits."""
    assert fit_lengths(LONG, 705, "fail").requests[-1].arrival_us == 7
    with pytest.raises(TraceError, match=r"600 \+ 100 tokens .*; engine.max_model_len is 699") as caught:
        fit_lengths(LONG, 699, "fail", "engine.max_model_len")
    assert caught.value.where == "here: row 7 (from 0)"
    assert "over_length: drop or clip-output" in caught.value.remedy


def test_long_requests_are_dropped() -> None:
    """Whole, and the first left arrives at 0; none left is an error."""
    assert [(one.row, one.arrival_us) for one in fit_lengths(LONG, 700, "drop").requests] == [(7, 0)]
    with pytest.raises(TraceError, match="every request has more than 5 tokens"):
        fit_lengths(LONG, 5, "drop")


def test_answers_are_clipped_and_prompts_never() -> None:
    """Answers are as long as fits; a prompt that leaves no room for one token is an error."""
    clipped = fit_lengths(LONG, 701, "clip-output").requests

    assert [(one.input_tokens, one.output_tokens) for one in clipped] == [(600, 100), (690, 11), (700, 1)]
    with pytest.raises(TraceError, match=r"700 \+ 5 tokens") as caught:
        fit_lengths(LONG, 700, "clip-output")
    assert "no output is left to clip" in caught.value.remedy


@given(traces(), st.integers(2, 400), st.sampled_from(["drop", "clip-output"]))
def test_whatever_fits_is_not_touched(trace: Trace, most: int, over: OverLength) -> None:
    """Everything left fits, prompts and blocks are those of the source, and what fitted is as it was."""
    try:
        after = fit_lengths(trace, most, over)
    except TraceError:
        assert any(one.input_tokens >= most or over == "drop" for one in trace.requests)
        return
    was = {one.row: one for one in trace.requests}
    for one in after.requests:
        before = was[one.row]
        assert one.input_tokens + one.output_tokens <= most
        assert (one.input_tokens, one.blocks) == (before.input_tokens, before.blocks)
        if before.input_tokens + before.output_tokens <= most:
            assert one.output_tokens == before.output_tokens
    fitting = {row for row, one in was.items() if one.input_tokens + one.output_tokens <= most}
    assert {one.row for one in after.requests} == (fitting if over == "drop" else set(was))
