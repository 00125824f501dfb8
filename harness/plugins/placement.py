"""Which Valkey instance holds a key.

Keys are LMCache's object keys as its native connectors write them (lmcache 0.5.5, native_connector_l2_adapter.py):
`[prefix@]model@<kv_rank, 8 hex>@<group, hex>@<chunk hash, hex>[@salt]`.
"""

import re
import zlib
from typing import Literal, get_args

Placement = Literal["chunk", "rank"]
PLACEMENTS: tuple[str, ...] = get_args(Placement)

# Only kv_rank is 8 digits wide and then followed by a shorter field, so a prefix or a salt never moves the match.
_OBJECT_KEY = re.compile(
    r"(?:[^@]*@)?[^@]*@(?P<kv_rank>[0-9a-f]{8})@[0-9a-f]{1,7}@(?P<chunk_hash>(?:[0-9a-f]{2})+)(?:@[^@]*)?"
)


def instance_of(key: str, instances: int, placement: Placement) -> int:
    """The instance, 0 <= i < `instances`, that holds `key`; the same in every process and on every machine.

    `chunk`: the chunk's hash modulo `instances`, so all ranks' parts of one chunk share an instance. `rank`: the global
    rank (bits 16-23 of kv_rank) modulo `instances`. A key of another form goes to its CRC-32 modulo `instances`.
    """
    fields = _OBJECT_KEY.fullmatch(key)
    if fields is None:
        return zlib.crc32(key.encode()) % instances
    if placement == "rank":
        return (int(fields["kv_rank"], 16) >> 16 & 0xFF) % instances
    return int(fields["chunk_hash"], 16) % instances
