"""The points of the pictures."""

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis import pictures
from tests.fakes.runs import FakePass, fake_run


def test_due_times_start_at_zero_in_every_arm() -> None:
    """Arms ran one after another; their points lie over the same trace. A failed request has no point."""
    run = fake_run([FakePass("recompute", [9.0, None, 7.0]), FakePass("valkey-1", [None, 3.0, 4.0])])
    (picture,) = pictures(run)
    assert [(trail.arm, trail.due_s, trail.seq) for trail in picture.trails] == [
        ("recompute", (0.0, 2.0), (0, 2)),
        ("valkey-1", (1.0, 2.0), (1, 2)),
    ]


def test_traces_come_first() -> None:
    """The incident is shown before the passes; a pass in which nothing succeeded has no picture."""
    run = fake_run([FakePass("a", [1.0], name="first"), FakePass("a", [1.0]), FakePass("a", [None], name="again")])
    assert [(picture.pass_name, picture.open_loop) for picture in pictures(run)] == [("replay", True), ("first", False)]


@settings(deadline=None, max_examples=30)
@given(values=st.lists(st.floats(0.1, 1e5), min_size=1, max_size=30))
def test_distribution(values: list[float]) -> None:
    """A distribution is sorted, rises by equal steps and ends at all requests."""
    (picture,) = pictures(fake_run([FakePass("a", values)]))
    (trail,) = picture.trails
    assert trail.sorted_ttft_ms == tuple(sorted(values))
    assert trail.share[-1] == 1
    assert list(trail.share) == sorted(trail.share)
