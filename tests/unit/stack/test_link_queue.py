"""What comes out of a link, and when."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stack.link_queue import LinkQueue

RATE = 1000.0
OFFERS = st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=40), st.floats(0, 0.1)), min_size=1, max_size=40)


def play(offers: list[tuple[str, bytes, float]], latency_s: float, polls: list[float]) -> list[tuple[str, bytes]]:
    """Offer everything in its time, asking what has come out at each offer's time and then after each of `polls`."""
    link: LinkQueue[str] = LinkQueue(RATE, latency_s)
    out, now = [], 0.0
    for flow, piece, pause in offers:
        now += pause
        out += link.come_out(now)
        link.offer(flow, piece, now)
    for pause in polls:
        now += pause
        out += link.come_out(now)
    return out + link.come_out(1e9)


@given(OFFERS, st.floats(0, 0.5), st.lists(st.floats(0, 0.2), max_size=20))
def test_every_flow_comes_out_whole_and_in_order(
    offers: list[tuple[str, bytes, float]], latency_s: float, polls: list[float]
) -> None:
    """Nothing is lost, repeated or reordered within a flow, however often it is asked."""
    given_in, came_out = defaultdict(list), defaultdict(list)
    for flow, piece, _ in offers:
        given_in[flow].append(piece)
    for flow, piece in play(offers, latency_s, polls):
        came_out[flow].append(piece)
    assert came_out == given_in


@given(OFFERS, st.floats(0, 0.5))
def test_a_late_question_changes_nothing(offers: list[tuple[str, bytes, float]], latency_s: float) -> None:
    """Asked a thousand times or once at the end, the same pieces come out in the same order."""
    assert play(offers, latency_s, [0.003] * 1000) == play(offers, latency_s, [])


def drained_at(link: LinkQueue[str], start: float) -> list[tuple[float, str]]:
    """The exact moments at which pieces come out, found by waking up just then."""
    out = [(start, flow) for flow, _ in link.come_out(start)]
    while (at := link.next_at()) is not None:
        out += [(at, flow) for flow, _ in link.come_out(at)]
    return out


def test_latency_delays_and_does_not_slow() -> None:
    """Ten pieces of a tenth of a second each come out a tenth apart, all later by the latency."""
    link: LinkQueue[str] = LinkQueue(RATE, 5.0)
    for _ in range(10):
        link.offer("a", bytes(100), 0.0)
    assert [at for at, _ in drained_at(link, 0.0)] == pytest.approx([5.1 + i / 10 for i in range(10)])


def test_flows_take_turns() -> None:
    """A short message waits for the piece that is passing and for one turn, not for all that was offered before it."""
    link: LinkQueue[str] = LinkQueue(RATE, 0.0)
    for _ in range(10):
        link.offer("long", bytes(100), 0.0)
    assert link.come_out(0.05) == []
    link.offer("short", bytes(10), 0.05)
    assert [flow for _, flow in drained_at(link, 0.06)][:4] == ["long", "long", "short", "long"]


def test_a_forgotten_flow_leaves_the_rate_to_others() -> None:
    """Pieces of a broken connection that have not begun to pass never do."""
    link: LinkQueue[str] = LinkQueue(RATE, 0.0)
    for flow in "aaab":
        link.offer(flow, bytes(100), 0.0)
    assert link.come_out(0.0) == []
    link.forget("a")
    assert [(round(at, 6), flow) for at, flow in drained_at(link, 0.0)] == [(0.1, "a"), (0.2, "b")]
