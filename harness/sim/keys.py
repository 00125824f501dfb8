"""What a cache looks prompts up by: a key for each whole granule of tokens, under all the tokens before it."""

import hashlib
from collections.abc import Callable, Iterator, Mapping

import blake3
import cbor2
import numpy as np

from harness.schedule import TokenIds

Key = bytes

_TOKEN_BYTES = 4


def prefix_keys(tokens: TokenIds, granule_tokens: int) -> Iterator[Key]:
    """A key for each whole granule, of its tokens and of the key before: equal keys mean equal prefixes.

    vLLM's block hashes are a chain of the same form; theirs are other digests.
    """
    key = b""
    raw = memoryview(np.ascontiguousarray(tokens, dtype="<u4").data).cast("B")
    size = granule_tokens * _TOKEN_BYTES
    for start in range(0, len(raw) - size + 1, size):
        key = hashlib.blake2b(raw[start : start + size], key=key, digest_size=16).digest()
        yield key


def blake3_keys(tokens: TokenIds, chunk_tokens: int) -> Iterator[Key]:
    """LMCache's own hash of each whole chunk, which decides where it lies (0.5.5, v1/multiprocess/token_hasher.py)."""
    big = np.ascontiguousarray(tokens, dtype=">u4").tobytes()
    size = chunk_tokens * _TOKEN_BYTES
    key = blake3.blake3(bytes(8 + _TOKEN_BYTES)).digest()
    for start in range(0, len(big) - size + 1, size):
        key = blake3.blake3(key + big[start : start + size]).digest()
        yield key


def sha256_cbor_keys(tokens: TokenIds, chunk_tokens: int) -> Iterator[Key]:
    """The same of LMCache inside the engine (v1/token_database.py) with `sha256_cbor`, under PYTHONHASHSEED=0."""
    key = _sha256_cbor("0")
    for start in range(0, len(tokens) - chunk_tokens + 1, chunk_tokens):
        chunk = tuple(tokens[start : start + chunk_tokens].tolist())
        key = _sha256_cbor((int.from_bytes(key, "big"), chunk, ()))
        yield key


def _sha256_cbor(value: object) -> Key:
    return hashlib.sha256(cbor2.dumps(value, canonical=True)).digest()[:8]


CHUNK_KEYS: Mapping[str, Callable[[TokenIds, int], Iterator[Key]]] = {
    "blake3": blake3_keys,
    "sha256_cbor": sha256_cbor_keys,
}
"""By the name that LMCache gives to a hash."""
