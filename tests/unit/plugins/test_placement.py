"""Which instance holds a key."""

import zlib
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plugins.placement import PLACEMENTS, Placement, home_over

MODELS = st.text(st.characters(codec="ascii", exclude_characters="@\n"), min_size=1, max_size=40)
HASHES = st.binary(min_size=4, max_size=32)
SALTS = st.none() | st.text(st.sampled_from("0123456789abcdefxyz"), min_size=1, max_size=16)
PREFIXES = st.none() | st.text(st.sampled_from("0123456789abcdefxyz-"), min_size=1, max_size=16)
RANKS = st.integers(0, 255)


def object_key(
    model: str, rank: int, chunk: bytes, *, group: int = 0, salt: str | None = None, prefix: str | None = None
) -> str:
    """The key as LMCache writes it, rank in bits 16 to 23 of a world of 255."""
    kv_rank = 255 << 24 | rank << 16 | 8 << 8 | rank % 8
    key = f"{model}@{kv_rank:08x}@{group:x}@{chunk.hex()}"
    return (f"{prefix}@" if prefix else "") + key + (f"@{salt}" if salt else "")


def instance_of(key: str, instances: int, placement: Placement) -> int:
    """Where `key` lives among as many instances, named by their number."""
    return home_over([f"valkey-{number}:6379" for number in range(instances)], placement)(key)


@given(MODELS, RANKS, HASHES, st.integers(0, 2**27), SALTS, PREFIXES, st.integers(1, 64))
def test_rank_placement_reads_the_rank(
    model: str, rank: int, chunk: bytes, group: int, salt: str | None, prefix: str | None, instances: int
) -> None:
    """By rank, a key lives on its rank modulo the instances, whatever stands around it."""
    key = object_key(model, rank, chunk, group=group, salt=salt, prefix=prefix)
    assert instance_of(key, instances, "rank") == rank % instances


@given(MODELS, RANKS, HASHES, st.integers(0, 2**27), SALTS, PREFIXES, st.integers(1, 64))
def test_chunk_placement_reads_the_hash(
    model: str, rank: int, chunk: bytes, group: int, salt: str | None, prefix: str | None, instances: int
) -> None:
    """By chunk, a key lives on its hash modulo the instances, whatever stands around it, so ranks stay together."""
    key = object_key(model, rank, chunk, group=group, salt=salt, prefix=prefix)
    assert instance_of(key, instances, "chunk") == int.from_bytes(chunk, "big") % instances


@given(MODELS, RANKS, st.integers(1, 2**64), st.integers(1, 64), st.sampled_from(["", "@3", "@user%a"]))
def test_keys_of_the_in_process_mode_are_read_too(model: str, rank: int, chunk: int, instances: int, more: str) -> None:
    """Their rank and their chunk's hash place them, as they do those of the multiprocess mode."""
    key = f"{model}@8@{rank}@{chunk:x}@bfloat16{more}"
    assert instance_of(key, instances, "rank") == rank % instances
    assert instance_of(key, instances, "chunk") == chunk % instances


@given(st.text(st.characters(codec="utf-8"), max_size=80), st.integers(1, 64), st.sampled_from(PLACEMENTS))
def test_every_key_has_a_home(key: str, instances: int, placement: Placement) -> None:
    """No text is refused: the instance is always one that exists."""
    assert 0 <= instance_of(key, instances, placement) < instances


NAMES = st.lists(st.from_regex(r"[a-z]{1,8}:[0-9]{4}", fullmatch=True), min_size=2, max_size=9, unique=True)


@given(NAMES, HASHES, RANKS, st.randoms(use_true_random=False))
def test_a_consistent_home_depends_on_names_alone(names: list[str], chunk: bytes, rank: int, random: Random) -> None:
    """Consistent placement names the same instance in whatever order they are given, and for every rank of a chunk."""
    shuffled = random.sample(names, len(names))
    home = names[home_over(names, "consistent")(object_key("m", 0, chunk))]
    assert shuffled[home_over(shuffled, "consistent")(object_key("m", rank, chunk))] == home


@given(NAMES, HASHES)
def test_an_instance_taken_away_moves_its_own_chunks_alone(names: list[str], chunk: bytes) -> None:
    """A chunk that did not live on the last instance stays where it was when that one goes."""
    key = object_key("m", 0, chunk)
    home = home_over(names, "consistent")(key)
    if home < len(names) - 1:
        assert home_over(names[:-1], "consistent")(key) == home


@pytest.mark.parametrize("key", ["", "plain", "m@0001@0@abcd", "m@01000100@0@xyz", "m@01000100@0@abc", "m@01000100"])
@pytest.mark.parametrize("placement", ["chunk", "rank"])
def test_other_keys_go_to_their_checksum(key: str, placement: Placement) -> None:
    """A key that is not an object key is placed by its CRC-32."""
    assert instance_of(key, 7, placement) == zlib.crc32(key.encode()) % 7


@pytest.mark.parametrize("placement", ["chunk", "consistent"])
def test_chunks_spread_evenly(placement: Placement) -> None:
    """Hashes that are uniform fill four instances within a tenth of each other."""
    keys = [object_key("m", 0, zlib.crc32(str(i).encode()).to_bytes(4, "big")) for i in range(4000)]
    counts = Counter(map(home_over(["a:1", "b:1", "c:1", "d:1"], placement), keys))
    assert len(counts) == 4
    assert max(counts.values()) < 1.1 * min(counts.values())
