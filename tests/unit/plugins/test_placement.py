"""Which instance holds a key."""

import zlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plugins.placement import instance_of

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


@given(st.text(max_size=80), st.integers(1, 64), st.sampled_from(["chunk", "rank"]))
def test_every_key_has_a_home(key: str, instances: int, placement: str) -> None:
    """No text is refused: the instance is always one that exists."""
    assert 0 <= instance_of(key, instances, placement) < instances  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["", "plain", "m@0001@0@abcd", "m@01000100@0@xyz", "m@01000100@0@abc", "m@01000100"])
@pytest.mark.parametrize("placement", ["chunk", "rank"])
def test_other_keys_go_to_their_checksum(key: str, placement: str) -> None:
    """A key that is not an object key is placed by its CRC-32."""
    assert instance_of(key, 7, placement) == zlib.crc32(key.encode()) % 7  # type: ignore[arg-type]


def test_chunks_spread_evenly() -> None:
    """Hashes that are uniform fill four instances within a tenth of each other."""
    keys = [object_key("m", 0, zlib.crc32(str(i).encode()).to_bytes(4, "big")) for i in range(4000)]
    counts = Counter(instance_of(key, 4, "chunk") for key in keys)
    assert len(counts) == 4
    assert max(counts.values()) < 1.1 * min(counts.values())
