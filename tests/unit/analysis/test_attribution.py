"""harness.analysis.attribution: the parts of a TTFT."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.attribution import Told, attribute, idle_delivery_ms

MS = st.floats(0, 10**6)
MAYBE = st.none() | MS
TOLD = st.builds(
    Told,
    ttft_ms=MS,
    accepted_ms=MAYBE,
    server_queue_ms=MAYBE,
    server_prefill_ms=MAYBE,
    lookup_ms=MAYBE,
    own_lookup_ms=MAYBE,
    load_ms=MAYBE,
    others_before_ms=MS,
    others_in_queue_ms=MS,
    others_in_step_ms=MS,
    in_step=st.booleans(),
    idle_delivery_ms=MAYBE,
)


@settings(deadline=None)
@given(TOLD)
def test_the_parts_are_the_ttft(told: Told) -> None:
    """Whatever was told, the parts add up to the TTFT, and what does not fit is in the unexplained one."""
    parts = attribute(told)
    assert parts.total_ms == pytest.approx(told.ttft_ms, abs=1e-3)
    assert (parts.queue_ms is None) == (told.server_queue_ms is None)
    assert (parts.recompute_ms is None) == (told.server_prefill_ms is None)


def test_a_load_in_the_queue() -> None:
    """Multiprocess mode: the queue holds the lookup and the copy; of the lookup its own share is the load."""
    told = Told(
        700.0,
        accepted_ms=3.0,
        server_queue_ms=650.0,
        server_prefill_ms=30.0,
        lookup_ms=600.0,
        own_lookup_ms=150.0,
        load_ms=5.0,
        idle_delivery_ms=4.0,
    )
    parts = attribute(told)
    assert (parts.queue_ms, parts.load_wait_ms, parts.load_ms) == (45.0, 450.0, 155.0)
    assert (parts.recompute_ms, parts.delivery_ms, parts.unexplained_ms) == (30.0, 7.0, 13.0)


def test_a_load_in_the_step() -> None:
    """Inside the engine: loads are in the engine's steps; those for others are the wait, its own is the load."""
    told = Told(
        700.0, server_queue_ms=100.0, server_prefill_ms=580.0, load_ms=90.0, others_in_step_ms=400.0, in_step=True
    )
    parts = attribute(told)
    assert (parts.queue_ms, parts.load_wait_ms, parts.load_ms, parts.recompute_ms) == (100.0, 400.0, 90.0, 90.0)
    assert (parts.delivery_ms, parts.unexplained_ms) == (None, 20.0)


def test_loads_for_others_hold_up_what_waits_too() -> None:
    """Inside the engine: before it took the request into its queue, and while it was there. All of it is the wait."""
    told = Told(
        1000.0,
        server_queue_ms=600.0,
        server_prefill_ms=150.0,
        load_ms=90.0,
        others_before_ms=250.0,
        others_in_queue_ms=580.0,
        others_in_step_ms=40.0,
        in_step=True,
    )
    parts = attribute(told)
    assert (parts.queue_ms, parts.load_wait_ms, parts.load_ms, parts.recompute_ms) == (20.0, 870.0, 90.0, 20.0)
    assert parts.unexplained_ms == 0.0


def test_nothing_told_is_nothing_explained() -> None:
    """A server that says nothing leaves it all unexplained: never a zero for what is not known."""
    parts = attribute(Told(200.0))
    assert (parts.queue_ms, parts.load_ms, parts.recompute_ms, parts.delivery_ms) == (None, None, None, None)
    assert parts.unexplained_ms == 200.0


def test_what_does_not_fit_is_unexplained_and_negative() -> None:
    """A lookup longer than the queue it was in makes no negative queue: the contradiction is shown."""
    parts = attribute(Told(100.0, server_queue_ms=50.0, server_prefill_ms=40.0, lookup_ms=80.0, own_lookup_ms=80.0))
    assert (parts.queue_ms, parts.unexplained_ms) == (0.0, -20.0)


def test_delivery_is_told_by_requests_that_run_alone() -> None:
    """The median of what is left of theirs; none of them, or one that was not told of, gives none."""
    alone = [
        Told(100.0 + rest, accepted_ms=2.0, server_queue_ms=8.0, server_prefill_ms=90.0) for rest in (3.0, 9.0, 5.0)
    ]
    assert idle_delivery_ms(alone) == 5.0
    assert idle_delivery_ms([*alone, alone[1]]) == 7.0
    assert idle_delivery_ms([Told(100.0)]) is None
    assert idle_delivery_ms([]) is None
