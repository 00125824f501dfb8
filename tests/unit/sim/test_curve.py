"""Hit rate against capacity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.sim.curve import Curve, hit_curve, uses_of, working_sets
from harness.trace import Trace
from harness.trace.reuse import PrefixTree
from tests.fakes.drawn_traces import BLOCK, traces


def rows_of(trace: Trace) -> tuple[list[tuple[list[int], int]], int]:
    """Rows by the numbers of their prefixes."""
    tree = PrefixTree()
    rows = [(tree.walk(one.blocks), one.input_tokens) for one in trace.requests]
    return rows, 1 + max((prefix for prefixes, _ in rows for prefix in prefixes), default=-1)


def naive(rows: list[tuple[list[int], int]], granule: int, capacity: int) -> int:
    """Hit tokens of a plain list of granules in order of use, looked up row by row."""
    held: list[object] = []
    hit = 0
    for row, (blocks, tokens) in enumerate(rows):
        names = []
        for place in range(tokens // granule):
            end = (place + 1) * granule
            block = (end - 1) // BLOCK
            names.append((blocks[block], place) if block < len(blocks) else (row, place, "own"))
        found = next((i for i, name in enumerate(names) if name not in held), len(names))
        hit += min(found, (tokens - 1) // granule) * granule
        for name in reversed(names):
            held = [*(one for one in held if one != name), name]
        held = held[-capacity:] if capacity else []
    return hit


@settings(deadline=None)
@given(traces(), st.sampled_from([8, 16, 32, 48, 64]))
def test_agrees_with_a_list(trace: Trace, granule: int) -> None:
    """At every capacity the curve has the hits of a list model, whether granule and block divide or not."""
    rows, prefixes = rows_of(trace)
    curve = hit_curve(uses_of(rows, prefixes, BLOCK, granule))

    for capacity in range(len(curve.hits) + 3):
        assert curve.hit_rate(capacity * granule) * curve.tokens == pytest.approx(naive(rows, granule, capacity))


@settings(deadline=None)
@given(traces(), st.sampled_from([8, 32, 64]))
def test_more_room_never_hits_less(trace: Trace, granule: int) -> None:
    """The curve rises to its end, and from there on stays."""
    rows, prefixes = rows_of(trace)
    curve = hit_curve(uses_of(rows, prefixes, BLOCK, granule))
    assert (np.diff(curve.hits) >= 0).all()
    assert curve.best == curve.hit_rate(1e12)


def cyclic(documents: int, blocks: int, passes: int) -> Curve:
    """Documents read in a cycle, one granule more than they share at the end of each."""
    rows = [([d * blocks + i for i in range(blocks)], blocks * 10 + 1) for _ in range(passes) for d in range(documents)]
    return hit_curve(uses_of(rows, documents * blocks, 10, 10))


def test_a_cycle_hits_nothing_until_everything_fits() -> None:
    """Ten documents of five granules: nothing with room for 45, all with room for 50."""
    curve = cyclic(10, 5, 3)
    assert curve.hit_rate(450) == 0
    assert curve.hit_rate(500) == pytest.approx(2 / 3 * 50 / 51)
    assert curve.capacity_for(0.1) == 460


def test_each_window_has_its_working_set() -> None:
    """Tokens of all different granules used in a window, those of a row without ids included."""
    uses = uses_of([([0, 1], 20), ([0, 1], 20), ([2], 10), ([], 15)], 3, 10, 10)
    assert working_sets(uses, [0, 2, 4]) == [20, 20]


def test_a_trace_without_whole_granules_has_no_hits() -> None:
    """Prompts shorter than a granule hit nothing at any capacity."""
    curve = hit_curve(uses_of([([0], 5), ([0], 5)], 1, 10, 10))
    assert (curve.best, curve.capacity_for(0.5)) == (0.0, None)


def test_refuses_a_granule_of_nothing() -> None:
    """A granule holds at least one token."""
    with pytest.raises(ValueError, match="granule_tokens is 0"):
        uses_of([], 0, 512, 0)
