"""Batches, and the shares they are dealt into."""

from hypothesis import given
from hypothesis import strategies as st

from harness.plugins.batch import Batch, Share, dealt
from harness.plugins.connection import Operation, Request


@given(st.lists(st.integers(), max_size=50), st.integers(1, 8))
def test_dealing_loses_and_adds_nothing(positions: list[int], hands: int) -> None:
    """The parts in order are the whole; none is empty, none more than there are hands, sizes near-equal."""
    parts = dealt(positions, hands)
    assert [position for part in parts for position in part] == positions
    assert len(parts) <= hands
    assert all(0 < len(part) <= -(-len(positions) // hands) for part in parts)


def share_of(operation: Operation, positions: list[int], size: int) -> Share:
    """A share of a batch of `size` keys."""
    batch = Batch(1, operation, [False] * size, deadline=float("inf"))
    return Share(batch, positions, [Request(operation, b"k")] * len(positions))


def test_outcomes_land_at_their_keys() -> None:
    """A share's outcomes go to its positions of the batch; an error leaves False there, and its text is kept."""
    share = share_of(Operation.EXISTS, [4, 1, 3], 5)
    for outcome in (True, "OOM", True):
        share.answer(outcome)
    assert share.pending == []
    assert share.batch.completion() == (1, True, "OOM", [False, False, False, True, True])


def test_a_store_is_ok_only_when_whole() -> None:
    """LMCache reads nothing but ok of a store, so ok is False when any key was not stored."""
    share = share_of(Operation.SET, [0, 1], 2)
    share.answer(True)
    assert share.batch.completion()[1] is False
    share.answer(True)
    assert share.batch.completion()[1] is True


def test_a_completion_does_not_change_afterwards() -> None:
    """What has been handed to LMCache is a copy."""
    share = share_of(Operation.GET, [0], 1)
    completion = share.batch.completion()
    share.answer(True)
    assert completion[3] == [False]
