"""What is counted of an instance's answers."""

from hypothesis import given
from hypothesis import strategies as st

from harness.plugins.batch import Batch, Share
from harness.plugins.connection import Operation, Request
from harness.plugins.statistics import Statistics, Tally

OUTCOMES = st.lists(st.sampled_from([True, False, "OOM"]), max_size=20)


@given(st.sampled_from(list(Operation)), OUTCOMES, st.integers(0, 5))
def test_every_key_is_counted_once(operation: Operation, outcomes: list[bool | str], unanswered: int) -> None:
    """Keys done, missed and unanswered are together the keys asked for (a delete's misses are not kept)."""
    size = len(outcomes) + unanswered
    value = memoryview(bytearray(3)) if operation in (Operation.GET, Operation.SET) else None
    share = Share(Batch(1, operation, [False] * size, 0.0), range(size), [Request(operation, b"k", value)] * size)
    for outcome in outcomes:
        share.answer(outcome)
    tally = Tally()
    tally.add(share, 0.5)
    counted = tally.read()

    done, missed = outcomes.count(True), len(outcomes) - outcomes.count(True)
    expected = {
        Operation.GET: Statistics(loaded=done, load_misses=missed, loaded_bytes=3 * done),
        Operation.SET: Statistics(stored=done, store_failures=missed, stored_bytes=3 * done),
        Operation.EXISTS: Statistics(found=done, lookup_misses=missed),
        Operation.DELETE: Statistics(deleted=done),
    }[operation]
    assert counted == expected + Statistics(unanswered=unanswered, busy_s=0.5)
    tally.add(share, 0.5)
    assert tally.read() == counted + counted
