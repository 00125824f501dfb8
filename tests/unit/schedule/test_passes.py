"""The passes workload."""

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.schedule import Plan, Prompting, plan_passes

PROMPTING = Prompting("model", "salt", 10, 32_000)
ORDER = ("first", "again", "reverse")


def ten(documents: int = 10, order: tuple[str, ...] = ORDER, *, salt: str = "salt", prewarm: bool = False) -> Plan:
    """A small plan of documents of 40 tokens and questions of 5."""
    prompting = Prompting("model", salt, 10, 32_000)
    return plan_passes("docs", documents, 40, 5, 4, order, 2, prompting, prewarm=prewarm)


def test_orders_and_counts() -> None:
    """`first` and `again` read documents in order, `reverse` backwards; seq runs on; every request is closed loop."""
    plan = ten()

    assert [part.name for part in plan.passes] == list(ORDER)
    assert [[r.row for r in part.requests] for part in plan.passes] == [
        [*range(10)],
        [*range(10)],
        [*reversed(range(10))],
    ]
    assert [r.seq for part in plan.passes for r in part.requests] == list(range(30))
    assert {part.concurrency for part in plan.passes} == {2}
    assert {(r.due_ns, r.session, r.max_tokens) for part in plan.passes for r in part.requests} == {(None, "", 4)}
    assert plan.prewarm is None


@settings(deadline=None)
@given(st.integers(1, 6), st.permutations(ORDER), st.integers(1, 3), st.booleans())
def test_only_document_tokens_are_shared(documents: int, order: list[str], passes: int, prewarm: bool) -> None:
    """Two prompts share their document's tokens and not one more, or nothing if their documents differ."""
    plan = ten(documents, tuple(order[:passes]), prewarm=prewarm)
    parts = [*plan.passes, *([plan.prewarm] if plan.prewarm else [])]

    for one, other in combinations([request for part in parts for request in part.requests], 2):
        different = np.flatnonzero(one.tokens != other.tokens)
        assert len(one.tokens) == 45
        assert different[0] == (40 if one.row == other.row else 0)


def test_prewarm_asks_each_document_once() -> None:
    """The prewarm asks every document one question for one token, one at a time, and leaves the passes as they are."""
    plan, cold = ten(prewarm=True), ten()

    assert plan.prewarm is not None
    assert (plan.prewarm.name, plan.prewarm.concurrency) == ("prewarm", 1)
    assert [(r.seq, r.row, r.max_tokens) for r in plan.prewarm.requests] == [(i, i, 1) for i in range(10)]
    assert [part.content() for part in plan.passes] == [part.content() for part in cold.passes]
    assert plan.hash != cold.hash


def test_bodies_carry_the_tokens() -> None:
    """What is sent is what the plan says."""
    for request in ten().passes[0].requests:
        body = json.loads(request.body)
        assert body["prompt"] == request.tokens.tolist()
        assert body["max_tokens"] == request.max_tokens


def test_hash_follows_the_salt() -> None:
    """The same salt gives the same plan; another salt, another one."""
    assert ten().hash == ten().hash
    assert ten(salt="other").hash != ten().hash


@pytest.mark.parametrize("order", [("first", "first"), ("backwards",)])
def test_refuses_an_order_it_does_not_know(order: tuple[str, ...]) -> None:
    """Passes have known names, each at most once, so that (pass, seq) names a request."""
    with pytest.raises(ValueError, match="order is"):
        ten(order=order)
