"""A pass cut into shares."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.client import workers_for
from harness.client.workers import shares
from harness.schedule import PassPlan
from tests.fakes.passes import closed_loop, open_loop, planned

SECOND_NS = 1_000_000_000


@given(st.lists(st.integers(0, 10**10), max_size=30), st.sets(st.integers(1, 29)), st.integers(1, 5))
def test_shares_are_the_plan(due_ns: list[int], turns: set[int], workers: int) -> None:
    """Every request is in exactly one share, none is empty, and a turn is with the turn before it."""
    requests = tuple(
        replace(planned(seq, None), after=seq - 1) if seq in turns else planned(seq, due)
        for seq, due in enumerate(due_ns)
    )
    parts = shares(PassPlan("replay", requests, None), workers)
    assert sorted(one.seq for part in parts for one in part.requests) == list(range(len(requests)))
    assert len(parts) <= workers
    if requests:
        assert all(part.requests for part in parts)
    for part in parts:
        own = {one.seq for one in part.requests}
        assert all(one.after is None or one.after in own for one in part.requests)


def test_a_closed_loop_is_one_share() -> None:
    """Its order is one queue, which cannot be cut."""
    plan = closed_loop(8, 2)
    assert shares(plan, 4) == (plan,)
    assert workers_for(plan, 8) == 1


@pytest.mark.parametrize(
    ("requests", "max_tokens", "cores", "workers"),
    [(0, 1, 8, 1), (100, 1, 8, 1), (2_000, 1, 8, 3), (2_000, 1, 2, 1), (100, 400, 8, 5), (2_000, 1, 1, 1)],
)
def test_the_busiest_second_decides(requests: int, max_tokens: int, cores: int, workers: int) -> None:
    """As many processes as the busiest second needs, in requests or in tokens, and a core is left."""
    busy = open_loop([5 * SECOND_NS] * requests, max_tokens)
    assert workers_for(busy, cores) == workers
