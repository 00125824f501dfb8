"""The trace workload."""

import hashlib
import json
import time
from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.schedule import Plan, Prompting, plan_trace
from harness.trace import SHIPPED, MakeSpec, Trace, TraceRequest, make_trace

PROMPTING = Prompting("model", "salt", 10, 32_000)
SIZE = 16


def trace_of(*rows: tuple[tuple[int, ...], int]) -> Trace:
    """Requests of (blocks, input tokens), one each ms, in blocks of 16."""
    requests = tuple(
        TraceRequest(i + 100, f"s{i}", 0, i * 1000, tokens, i + 1, blocks) for i, (blocks, tokens) in enumerate(rows)
    )
    return Trace(requests, SIZE, "here", "unstated")


def shared(one: np.ndarray, other: np.ndarray) -> int:
    """How many leading tokens two prompts share."""
    shorter = min(len(one), len(other))
    different = np.flatnonzero(one[:shorter] != other[:shorter])
    return int(different[0]) if len(different) else shorter


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Traces of whole blocks, each prompt with some tokens behind them that have no id (tail floor)."""
    rows = draw(
        st.lists(
            st.tuples(st.lists(st.integers(0, 2), max_size=5).map(tuple), st.integers(1, 15)), min_size=1, max_size=8
        )
    )
    return trace_of(*((blocks, SIZE * len(blocks) + rest) for blocks, rest in rows))


@settings(deadline=None)
@given(traces())
def test_requests_share_their_leading_blocks_and_no_more(trace: Trace) -> None:
    """Lengths are exact, and two prompts share exactly the tokens of their common leading blocks."""
    requests = plan_trace("t", trace, PROMPTING, prewarm=False).passes[0].requests

    assert [len(request.tokens) for request in requests] == [row.input_tokens for row in trace.requests]
    for (one, row), (other, other_row) in combinations(zip(requests, trace.requests, strict=True), 2):
        pairs = zip(row.blocks, other_row.blocks, strict=False)
        common = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(row.blocks), len(other_row.blocks)))
        assert shared(one.tokens, other.tokens) == SIZE * common


def test_requests_are_due_at_their_arrivals() -> None:
    """The replay is open loop, in order, each row with its own time, session and output length."""
    plan = plan_trace("t", trace_of(((0,), 16), ((1,), 9)), PROMPTING, prewarm=False)

    (replay,) = plan.passes
    assert (plan.workload, replay.name, replay.concurrency, plan.prewarm) == ("t", "replay", None, None)
    assert [(r.seq, r.row, r.session, r.due_ns, r.max_tokens) for r in replay.requests] == [
        (0, 100, "s0", 0, 1),
        (1, 101, "s1", 1_000_000, 2),
    ]
    for request in replay.requests:
        assert json.loads(request.body)["prompt"] == request.tokens.tolist()


def test_a_shared_partial_block_is_shared_in_part() -> None:
    """Two rows of the same tail block are the same prompt."""
    one, other = plan_trace("t", trace_of(((0, 1), 20), ((0, 1), 20)), PROMPTING, prewarm=False).passes[0].requests

    np.testing.assert_array_equal(one.tokens, other.tokens)


def warm_lengths(plan: Plan) -> list[tuple[int, int, int]]:
    """Of each prewarming request: its seq, row and length."""
    assert plan.prewarm is not None
    return [(r.seq, r.row, len(r.tokens)) for r in plan.prewarm.requests]


def test_prewarm_sends_each_shared_prefix_once() -> None:
    """Prefixes that several rows share are sent once, the longer one for the shorter; what nobody shares is not."""
    trace = trace_of(
        ((0, 1, 2), 48),  # shares (0, 1) with the next
        ((0, 1, 3), 48),
        ((0, 4), 32),  # shares (0), which (0, 1) starts with
        ((5, 6), 32),  # shares nothing
        ((7, 8), 20),  # twice the same, the last block in part
        ((7, 8), 20),
    )
    plan = plan_trace("t", trace, PROMPTING, prewarm=True)

    assert warm_lengths(plan) == [(0, 100, 32 + 4), (1, 104, 20 + 4)]
    assert plan.prewarm is not None
    assert (plan.prewarm.name, plan.prewarm.concurrency) == ("prewarm", 1)
    assert {(r.due_ns, r.max_tokens) for r in plan.prewarm.requests} == {(None, 1)}


@settings(deadline=None)
@given(traces())
def test_prewarm_covers_whatever_rows_share(trace: Trace) -> None:
    """What a prompt shares with any other, some prewarming prompt has; none holds more of it; no two are redundant."""
    plan = plan_trace("t", trace, PROMPTING, prewarm=True)
    assert plan.prewarm is not None
    prompts = [r.tokens for r in plan.passes[0].requests]
    warm = [r.tokens for r in plan.prewarm.requests]

    for i, prompt in enumerate(prompts):
        with_rows = max((shared(prompt, other) for j, other in enumerate(prompts) if j != i), default=0)
        assert max((shared(prompt, tokens) for tokens in warm), default=0) == with_rows
    for one, other in combinations(warm, 2):
        assert shared(one, other) < min(len(one), len(other)) - 4


def test_prewarm_of_the_shipped_shape() -> None:
    """Each prefix of the made trace that repeats is sent once, in the order of its first use."""
    trace = make_trace(MakeSpec(requests=20, prefixes=6, prefix_tokens=1024))

    lengths = warm_lengths(plan_trace("t", trace, PROMPTING, prewarm=True))

    assert lengths == [(i, i, 1024 + 4) for i in range(6)]


def test_hash_follows_times_and_salt() -> None:
    """Plans that send other tokens, or at other times, have other hashes; equal ones have equal ones."""
    trace = trace_of(((0,), 16), ((1,), 9))
    later = trace_of(((0,), 16), ((0,), 16), ((1,), 9))
    other = Prompting("model", "other salt", 10, 32_000)
    hashes = [
        plan_trace("t", t, p, prewarm=False).hash for t, p in ((trace, PROMPTING), (later, PROMPTING), (trace, other))
    ]

    assert len(set(hashes)) == 3
    assert hashes[0] == plan_trace("renamed", trace, PROMPTING, prewarm=False).hash


def test_plans_never_change() -> None:
    """Golden hashes: the same bytes on every machine, in every process and with every version."""
    plan = plan_trace("t", make_trace(MakeSpec(requests=30)), Prompting("m", "0/t/0", 4, 151_643), prewarm=True)
    assert plan.prewarm is not None
    bodies = hashlib.sha256(b"".join(one.body for part in (*plan.passes, plan.prewarm) for one in part.requests))

    assert plan.hash == "803975b2805c8039a105725cb537ed58825af7ea47885f074e0900cfff01967d"
    assert bodies.hexdigest() == "6efbf6931f7f67d1e0f010bc089c9b0e03ac58343981f29246f43eaf3d22be7f"


def test_the_shipped_trace_is_planned_quickly_and_in_little_memory() -> None:
    """11 million tokens in under 70 times the time of 3 million additions (10 s where those take 0.15 s), 12 B each."""
    trace = make_trace(SHIPPED["trace-16k-683"])
    begun = time.process_time()
    total = 0
    for number in range(3_000_000):
        total += number
    added = time.process_time()
    plan = plan_trace("t", trace, Prompting("m", "salt", 4, 151_643), prewarm=False)
    planned = time.process_time()
    tokens = sum(len(one.tokens) for one in plan.passes[0].requests)

    assert tokens == 11_282_158
    assert planned - added < 70 * (added - begun)
    assert sum(one.tokens.nbytes + len(one.body) for one in plan.passes[0].requests) < 12 * tokens
