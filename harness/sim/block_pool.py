"""vLLM's own KV cache, block for block: what a prompt hits there, and what it pushes out.

The rules are those of vLLM 0.31 (v1/core/block_pool.py, kv_cache_manager.py, single_type_kv_cache_manager.py).
"""

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.sim.keys import Key

Block = int


@dataclass(slots=True)
class Held:
    """The blocks of one request, in the order of its tokens; `published` of them can be hit by others."""

    keys: Sequence[Key]
    blocks: list[Block]
    published: int


class BlockPool:
    """A fixed number of blocks, a queue of those that are free, and which key finds which of them.

    A block is found by its key as long as nothing else was written to it, free or not. Free blocks are taken from the
    front of the queue. A request that ends puts its blocks back, the last first: those with a key at the end, so that
    of a prompt the tail goes first; those without one at the front. A hit takes a free block out of the queue. Equal
    content in two blocks is kept twice. Block 0 is the null block, which vLLM gives to nobody. Without `caching`
    (--no-enable-prefix-caching) nothing is ever found.

    Raises ValueError for a pool of fewer than two blocks, or blocks of no token.
    """

    def __init__(self, blocks: int, block_tokens: int, *, caching: bool = True) -> None:
        if blocks < 2 or block_tokens < 1:
            raise ValueError(
                f"a pool of {blocks} blocks of {block_tokens} tokens: two blocks at least, of a token each"
            )
        self.block_tokens = block_tokens
        self._caching = caching
        self.usable_blocks = blocks - 1
        self._refs = [0] * blocks
        self._key: dict[Block, Key] = {}
        self._found: dict[Key, dict[Block, None]] = {}
        self._free: OrderedDict[Block, None] = OrderedDict.fromkeys(range(1, blocks))
        self._own_keys = itertools.count()

    def hits(self, keys: Sequence[Key], prompt_tokens: int) -> list[Block]:
        """The blocks that hold the longest run of `keys` from the first on.

        At least the last token of a prompt is computed: the run ends below `prompt_tokens`.
        """
        blocks = []
        for key in itertools.islice(keys, (prompt_tokens - 1) // self.block_tokens):
            found = self._found.get(key)
            if found is None:
                break
            blocks.append(next(iter(found)))
        return blocks

    def admit(
        self, keys: Sequence[Key], hits: Sequence[Block], tokens: int, prompt_tokens: int, reserved: int = 0
    ) -> Held | None:
        """Blocks for the first `tokens` tokens of a prompt whose whole blocks have `keys`.

        `hits` are shared, the others taken and not published. None, and nothing is taken, where the whole prompt does
        not fit into what is free (vLLM's scheduler_reserve_full_isl, on by default), or `tokens` not into what is free
        but for `reserved` blocks.
        """
        touched = sum(not self._refs[block] for block in hits)
        new = max(self._blocks_for(tokens) - len(hits), 0)
        whole = max(self._blocks_for(prompt_tokens) - len(hits), 0)
        if max(whole + touched, new + touched + reserved) > len(self._free):
            return None
        for block in hits:
            if not self._refs[block]:
                del self._free[block]
            self._refs[block] += 1
        return Held(keys, [*hits, *self._take(new)], len(hits))

    def missing(self, held: Held, tokens: int) -> int:
        """How many blocks more a request needs for its first `tokens` tokens."""
        return max(self._blocks_for(tokens) - len(held.blocks), 0)

    def grow(self, held: Held, tokens: int) -> bool:
        """Give a request room for its first `tokens` tokens; False, and nothing is taken, where too few are free."""
        new = self.missing(held, tokens)
        if new > len(self._free):
            return False
        held.blocks += self._take(new)
        return True

    def publish(self, held: Held, tokens: int) -> None:
        """Let others hit the whole blocks among the first `tokens` tokens; what is no prompt's has a key of its own."""
        for place in range(held.published, tokens // self.block_tokens) if self._caching else ():
            key = held.keys[place] if place < len(held.keys) else f"own {next(self._own_keys)}".encode()
            block = held.blocks[place]
            self._key[block] = key
            self._found.setdefault(key, {})[block] = None
            held.published = place + 1

    def release(self, held: Held) -> None:
        """Give a request's blocks back."""
        first: list[Block] = []
        last: list[Block] = []
        for block in reversed(held.blocks):
            self._refs[block] -= 1
            if not self._refs[block]:
                (last if block in self._key else first).append(block)
        self._free.update(dict.fromkeys(last))
        for block in reversed(first):
            self._free[block] = None
            self._free.move_to_end(block, last=False)
        held.blocks = []

    def fits(self, tokens: int) -> bool:
        """Whether a request of so many tokens, its answer included, can ever run."""
        return self._blocks_for(tokens) <= self.usable_blocks

    def forget(self) -> None:
        """Let nothing be found any more, as /reset_prefix_cache does; the order of free blocks stays."""
        self._key.clear()
        self._found.clear()

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def _take(self, count: int) -> Iterable[Block]:
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self._refs[block] = 1
            key = self._key.pop(block, None)
            if key is not None:
                del self._found[key][block]
                if not self._found[key]:
                    del self._found[key]
        return taken
