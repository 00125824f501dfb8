"""Token ids for blocks: a function of salt, block id and position alone, the same in every process."""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from harness.schedule.plan import TokenIds


@dataclass(frozen=True, slots=True)
class Prompting:
    """How prompts are made: the model's name as the server knows it, the salt, and the token ids allowed.

    Ids are drawn from [`vocab_low`, `vocab_high`): the vocabulary without its special ids. Another salt makes other
    prompts, which no cache holds. `chat` makes bodies for /v1/chat/completions, which takes text only. Raises
    ValueError if fewer than two ids are allowed.
    """

    model: str
    salt: str
    vocab_low: int
    vocab_high: int
    chat: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError for a vocabulary that token ids cannot be drawn from."""
        if not 0 <= self.vocab_low < self.vocab_high - 1 < 2**32:
            raise ValueError(f"vocabulary [{self.vocab_low}, {self.vocab_high}) must hold two ids or more, from 0")


@lru_cache(maxsize=4096)  # the blocks that many prompts share
def block_tokens(prompting: Prompting, block: int, count: int) -> TokenIds:
    """The first `count` tokens of a block, shape [count], uint32, read-only.

    With V ids allowed, blocks differ from their first token on as long as there are at most V of them, and within
    their first two tokens for up to V**2: the first token is an affine bijection of (block mod V), the second is
    shifted by block div V. All others are drawn by SHAKE-256 in [low, high), nearly uniformly.
    """
    size = prompting.vocab_high - prompting.vocab_low
    quotient, remainder = divmod(block, size)
    offsets = _draws(prompting.salt, block, count) % size
    if count:
        factor, shift = _affine(prompting.salt, size)
        offsets[0] = (factor * remainder + shift) % size
    if count > 1 and quotient:
        offsets[1] = (int(_draws(prompting.salt, remainder, 2)[1]) + quotient) % size
    tokens = (offsets + prompting.vocab_low).astype(np.uint32)
    tokens.flags.writeable = False
    return tokens


def prompt_tokens(prompting: Prompting, parts: Iterable[tuple[int, int]]) -> TokenIds:
    """The tokens of (block, count) parts one after the other, shape [sum of counts], uint32; parts are not empty."""
    return np.concatenate([block_tokens(prompting, block, count) for block, count in parts])


def _draws(salt: str, block: int, count: int) -> npt.NDArray[np.int64]:
    """`count` draws of 32 bits; fewer draws are the first of more."""
    stream = hashlib.shake_256(f"{block}|{salt}".encode()).digest(4 * count)
    return np.frombuffer(stream, dtype="<u4").astype(np.int64)


@lru_cache(maxsize=64)
def _affine(salt: str, size: int) -> tuple[int, int]:
    """Factor and shift of a bijection x -> (factor x + shift) mod size, fixed by the salt."""
    digest = hashlib.sha256(f"affine|{salt}".encode()).digest()
    factor, shift = int.from_bytes(digest[:16], "big") % size, int.from_bytes(digest[16:], "big") % size
    while math.gcd(factor, size) != 1:
        factor = (factor + 1) % size
    return factor, shift
