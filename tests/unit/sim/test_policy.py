"""Eviction policies."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sim.policy import POLICIES

KEYS = [bytes([i]) for i in range(12)]


def hits(name: str, room: int, uses: list[bytes]) -> int:
    """How many of `uses` a cache of `room` objects hits."""
    policy, held, hit = POLICIES[name](room), set(), 0
    for key in uses:
        if key in held:
            hit += 1
            policy.touch(key)
            continue
        if len(held) == room:
            held.remove(policy.evict())
        held.add(key)
        policy.add(key)
    return hit


@given(st.sampled_from(sorted(POLICIES)), st.integers(1, 6), st.lists(st.sampled_from(KEYS), max_size=60))
def test_gives_up_only_what_it_holds(name: str, room: int, uses: list[bytes]) -> None:
    """Whatever comes, an eviction names an object that is held, and no cache beats one without a limit."""
    assert 0 <= hits(name, room, uses) <= max(len(uses) - len(set(uses)), 0)


@given(st.sampled_from(sorted(POLICIES)), st.lists(st.sampled_from(KEYS), max_size=60), st.data())
def test_forgets_what_is_discarded(name: str, uses: list[bytes], data: st.DataObject) -> None:
    """A discarded object is never given up; all others are, each once."""
    policy, held = POLICIES[name](20), []
    for key in uses:
        if key in held:
            policy.touch(key)
        else:
            policy.add(key)
            held.append(key)
    gone = data.draw(st.sets(st.sampled_from(held))) if held else set()
    for key in gone:
        policy.discard(key)
    left = [policy.evict() for _ in range(len(held) - len(gone))]
    assert sorted(left) == sorted(set(held) - gone)


@given(st.integers(1, 6), st.lists(st.sampled_from(KEYS), max_size=60))
def test_lru_is_a_list_in_order_of_use(room: int, uses: list[bytes]) -> None:
    """LRU hits what a plain list of the latest uses holds."""
    order: list[bytes] = []
    expected = 0
    for key in uses:
        expected += key in order
        order = [*(one for one in order if one != key), key][-room:]
    assert hits("lru", room, uses) == expected


@pytest.mark.parametrize(("name", "least"), [("lru", 0), ("fifo", 0), ("lfu", 0), ("s3-fifo", 1)])
def test_in_a_cycle_larger_than_the_cache(name: str, least: int) -> None:
    """In a cycle of twelve through room for ten, what goes by age hits nothing; S3-FIFO keeps a part."""
    cycle = list(itertools.islice(itertools.cycle(KEYS), 12 * 20))
    found = hits(name, 10, cycle)
    assert (found == 0) if least == 0 else (found >= least)


def test_lfu_keeps_what_is_used_often() -> None:
    """Of three, the one used once goes first."""
    policy = POLICIES["lfu"](3)
    for key in KEYS[:3]:
        policy.add(key)
    policy.touch(KEYS[0])
    policy.touch(KEYS[2])
    assert policy.evict() == KEYS[1]
