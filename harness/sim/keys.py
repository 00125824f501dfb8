"""What a cache looks prompts up by: a key for each whole granule of tokens, under all the tokens before it."""

import hashlib
from collections.abc import Iterator

import numpy as np

from harness.schedule import TokenIds

Key = bytes

_TOKEN_BYTES = 4


def prefix_keys(tokens: TokenIds, granule_tokens: int) -> Iterator[Key]:
    """A key for each whole granule, of its tokens and of the key before: equal keys mean equal prefixes.

    vLLM's block hashes and LMCache's chunk hashes are chains of the same form; theirs are other digests.
    """
    key = b""
    raw = memoryview(np.ascontiguousarray(tokens, dtype="<u4").data).cast("B")
    size = granule_tokens * _TOKEN_BYTES
    for start in range(0, len(raw) - size + 1, size):
        key = hashlib.blake2b(raw[start : start + size], key=key, digest_size=16).digest()
        yield key
