"""LMCache's host tier and the remote tier."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sim.host import HostSpec, HostTier
from harness.sim.lmcache import LMCacheSpec, LMCacheTiers
from harness.sim.remote import PLACEMENTS, RemoteSpec, RemoteTier

KEYS = [bytes([i]) * 16 for i in range(40)]


def test_a_sweep_gives_up_a_fifth_from_the_tail_of_the_oldest() -> None:
    """At four fifths of ten chunks a sweep drops int(8 x 0.2) = 1: the last chunk of the first prompt."""
    host = HostTier(HostSpec(10))
    host.put(KEYS[:4])
    host.put(KEYS[4:8])
    host.sweep()
    assert [key in host for key in KEYS[:8]] == [True, True, True, False, True, True, True, True]


def test_below_the_watermark_nothing_goes() -> None:
    """Seven of ten chunks are below four fifths."""
    host = HostTier(HostSpec(10))
    host.put(KEYS[:7])
    host.sweep()
    assert len(host) == 7


def test_what_does_not_fit_is_not_stored() -> None:
    """The multiprocess server stores the front of a prompt as far as there is room, until its next sweep."""
    host = HostTier(HostSpec(3))
    host.put(KEYS[:5])
    assert [key in host for key in KEYS[:5]] == [True, True, True, False, False]


def test_in_process_room_is_made_and_the_head_goes_first() -> None:
    """Without a watermark a full tier gives up its oldest chunk for each new one."""
    host = HostTier(HostSpec(4, "lru", None))
    host.put(KEYS[:4])
    host.put(KEYS[4:5])
    assert [key in host for key in KEYS[:5]] == [False, True, True, True, True]


@given(st.lists(st.integers(0, 39), max_size=60), st.sampled_from([0.8, None]))
def test_never_holds_more_than_fits(order: list[int], watermark: float | None) -> None:
    """Whatever is stored."""
    host = HostTier(HostSpec(7, "lru", watermark))
    for i in order:
        host.put(KEYS[i : i + 3])
        assert len(host) <= 7
        host.sweep()


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_chunk_is_found_where_it_was_put(placement: str) -> None:
    """Whatever the placement, each chunk is there after it was stored, and the bytes of all instances are its bytes."""
    remote = RemoteTier(RemoteSpec(4, placement, ranks=4), 1000.0)
    for place, key in enumerate(KEYS):
        remote.put(key, place)
    assert all(remote.holds(key, place) for place, key in enumerate(KEYS))
    assert sum(remote.bytes_held()) == pytest.approx(1000.0 * len(KEYS))


def test_consistent_placement_moves_only_the_share_of_an_instance_that_goes() -> None:
    """What was not on the fifth of five instances stays where it is with four."""
    five, four = RemoteTier(RemoteSpec(5, "consistent"), 1.0), RemoteTier(RemoteSpec(4, "consistent"), 1.0)
    homes = [(five.parts(key, 0)[0].instance, four.parts(key, 0)[0].instance) for key in KEYS]
    assert all(a == b for a, b in homes if a != 4)


@pytest.mark.parametrize(("policy", "first", "last"), [(None, True, False), ("lru", False, True)])
def test_a_full_instance(policy: str | None, first: bool, last: bool) -> None:
    """noeviction refuses what is new; allkeys-lru gives up what is old."""
    remote = RemoteTier(RemoteSpec(1, instance_bytes=2500, policy=policy), 1000.0)
    for place, key in enumerate(KEYS[:3]):
        remote.put(key, place)
    assert (remote.holds(KEYS[0], 0), remote.holds(KEYS[2], 2)) == (first, last)
    assert remote.bytes_held() == [2000.0]


def test_a_lookup_ends_at_the_first_gap() -> None:
    """Chunks behind one that neither tier has are no hit."""
    tiers = LMCacheTiers(LMCacheSpec(10, 1.0, HostSpec(10), RemoteSpec(1)))
    tiers.store(KEYS[:2], tiers.find(KEYS[:2]))
    assert tiers.host is not None
    tiers.host.put(KEYS[3:4])
    assert tiers.find(KEYS[:4]).tokens == 20


@pytest.mark.parametrize(("whole", "places"), [(True, (0, 1, 2)), (False, (1, 2))])
def test_what_vllm_holds_is_fetched_only_where_lmcache_does_so(whole: bool, places: tuple[int, ...]) -> None:
    """In-process, in-step loads leave out chunks that vLLM has whole; lookups ahead of time do not know."""
    tiers = LMCacheTiers(LMCacheSpec(10, 1.0, None, RemoteSpec(1), fetches_whole=whole))
    tiers.store(KEYS[:3], tiers.find(KEYS[:3]))
    assert tiers.fetched(tiers.find(KEYS[:3]), 15) == places


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RemoteSpec(2, "rank", ranks=4), "one a rank"),
        (lambda: RemoteSpec(2, "nowhere"), "no placement"),
        (lambda: RemoteSpec(0), "at least one"),
        (lambda: RemoteSpec(1, policy="oldest"), "no policy"),
        (lambda: HostSpec(0), "a single chunk"),
        (lambda: HostSpec(5, "oldest"), "no policy"),
        (lambda: RemoteTier(RemoteSpec(1, instance_bytes=10), 1000.0), "a single chunk"),
    ],
)
def test_what_cannot_be_is_refused(make: object, said: str) -> None:
    """An impossible placement, no room, and names that nobody knows."""
    with pytest.raises(ValueError, match=said):
        make()  # type: ignore[operator]
