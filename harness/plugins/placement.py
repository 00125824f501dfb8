"""Which Valkey instance holds a key.

Two forms of key are known, those of LMCache's two modes (lmcache 0.5.5). Multiprocess, native_connector_l2_adapter.py:
`[prefix@]model@<kv_rank, 8 hex>@<group, hex>@<chunk hash, hex>[@salt]`. In-process, CacheEngineKey.to_string:
`model@<ranks>@<rank>@<chunk hash, hex>@<dtype>[@layer or tags]`.
"""

import hashlib
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Literal, get_args

Placement = Literal["chunk", "rank", "consistent"]
PLACEMENTS: tuple[str, ...] = get_args(Placement)

# Only kv_rank is 8 digits wide and then followed by a shorter field, so a prefix or a salt never moves the match.
_OBJECT_KEY = re.compile(
    r"(?:[^@]*@)?[^@]*@(?P<kv_rank>[0-9a-f]{8})@[0-9a-f]{1,7}@(?P<chunk_hash>(?:[0-9a-f]{2})+)(?:@[^@]*)?"
)
_ENGINE_KEY = re.compile(r"[^@]*@[0-9]{1,7}@(?P<rank>[0-9]{1,7})@(?P<chunk_hash>[0-9a-f]+)@[a-z][a-z0-9_]*(?:@.*)?")


def home_over(names: Sequence[str], placement: Placement) -> Callable[[str], int]:
    """From a key to the instance, 0 <= i < len(names), that holds it; the same in every process and on every machine.

    `chunk`: the chunk's hash modulo the instances, so all ranks' parts of one chunk share an instance. `rank`: the
    global rank (bits 16-23 of a kv_rank) modulo the instances. `consistent`: the instance whose name and the chunk's
    hash together hash highest (rendezvous hashing, Thaler and Ravishankar 1998), whatever the order of the names, so
    that an instance that is added or taken away moves only its own share of the chunks. A key of another form is placed
    by its CRC-32, or by rendezvous with the whole key.
    """
    count = len(names)
    seeds = [hashlib.blake2b(name.encode(), digest_size=32).digest() for name in names]

    def home(key: str) -> int:
        parts = _parts(key)
        if placement == "consistent":
            return _highest(seeds, parts[1] if parts else key)
        if parts is None:
            return zlib.crc32(key.encode()) % count
        rank, chunk_hash = parts
        return (rank if placement == "rank" else int(chunk_hash, 16)) % count

    return home


def _parts(key: str) -> tuple[int, str] | None:
    """Rank and chunk hash of a key; None if it has neither of the forms known."""
    if fields := _OBJECT_KEY.fullmatch(key):
        return int(fields["kv_rank"], 16) >> 16 & 0xFF, fields["chunk_hash"]
    if fields := _ENGINE_KEY.fullmatch(key):
        return int(fields["rank"]), fields["chunk_hash"]
    return None


def _highest(seeds: Sequence[bytes], text: str) -> int:
    weights = [hashlib.blake2b(text.encode(), key=seed, digest_size=8).digest() for seed in seeds]
    return max(range(len(weights)), key=weights.__getitem__)
