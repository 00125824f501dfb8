"""Token hit rate against capacity, for all capacities in one pass: stack distances of exact LRU.

Mattson and others, "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970: under LRU a use
hits in a cache exactly if it holds at least as many blocks as were used since the last use, that one included. The
counts come from a binary indexed tree (Fenwick, 1994) over the order of last uses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numba
import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Uses:
    """Rows of a trace as uses of granules (blocks or chunks): of each prompt its whole granules, from the first on.

    `ids` (shape [uses], int32, dense from 0) has the rows one after another; row i is `ids[starts[i]:starts[i + 1]]`.
    Equal ids are equal prefixes. `prompt_tokens` (shape [rows], int64).
    """

    ids: Ids
    starts: Counts
    prompt_tokens: Counts
    granule_tokens: int


def uses_of(rows: Sequence[tuple[Sequence[int], int]], prefixes: int, block_tokens: int, granule_tokens: int) -> Uses:
    """Granules of rows given as (numbers of the prefixes that a row's blocks end, prompt tokens).

    `prefixes` is how many different ones there are, numbered from 0; a block has `block_tokens` tokens, a row's last
    perhaps fewer. A granule has the number of the block it ends in, and its place among those that end there; one that
    ends behind the last block is shared with nobody. Granule and block need not divide each other.
    Raises ValueError for a granule of no token.
    """
    if granule_tokens < 1:
        raise ValueError(f"granule_tokens is {granule_tokens}: at least 1")
    per_block = -(-block_tokens // granule_tokens)
    parts, free = [], prefixes * per_block
    for blocks, tokens in rows:
        places = np.arange(tokens // granule_tokens, dtype=np.int64)
        depth = ((places + 1) * granule_tokens - 1) // block_tokens
        inside = places - depth * block_tokens // granule_tokens
        shared = int(np.searchsorted(depth, len(blocks)))
        ids = np.empty(len(places), dtype=np.int64)
        ids[:shared] = np.asarray(blocks, dtype=np.int64)[depth[:shared]] * per_block + inside[:shared]
        ids[shared:] = free + np.arange(len(places) - shared)
        free += len(places) - shared
        parts.append(ids)
    flat = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    dense = flat if free < 2**31 else np.unique(flat, return_inverse=True)[1]
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)]).astype(np.int64)
    return Uses(
        dense.astype(np.int32), starts, np.array([tokens for _, tokens in rows], dtype=np.int64), granule_tokens
    )


@dataclass(frozen=True)
class Curve:
    """`hits` (shape [capacity in granules + 1], int64): granules that hit in a cache of so many, summed over the rows.

    It ends where more room hits no more. `tokens` are those of all prompts, `different` the different granules.
    """

    hits: Counts
    tokens: int
    granule_tokens: int
    different: int

    def hit_rate(self, capacity_tokens: float) -> float:
        """Hit tokens / prompt tokens, in an LRU cache of that many tokens (whole granules of them)."""
        granules = min(int(capacity_tokens // self.granule_tokens), len(self.hits) - 1)
        return float(self.hits[granules] * self.granule_tokens / self.tokens) if self.tokens else 0.0

    @cached_property
    def best(self) -> float:
        """The hit rate of a cache without a limit."""
        return self.hit_rate(len(self.hits) * self.granule_tokens)

    def capacity_for(self, share: float) -> int | None:
        """The fewest tokens of capacity that hit `share` (0 to 1) of all hits there can be; None of no hits at all."""
        if not self.hits[-1]:
            return None
        return int(np.searchsorted(self.hits, share * self.hits[-1])) * self.granule_tokens


def hit_curve(uses: Uses) -> Curve:
    """The exact curve. A row is looked up before any of it is stored; then all of it is used, its tail the first.

    So of one row the tail goes first, as in vLLM, and whoever holds a granule holds all before it. The last token of a
    prompt is always computed: a granule that ends with it does not hit. Answers are not stored.
    Takes 4 bytes a use, 4 a different granule, and 4 a use for the distances.
    """
    different = int(uses.ids.max()) + 1 if len(uses.ids) else 0
    distances = _distances(uses.ids, uses.starts, different)
    lengths = np.diff(uses.starts)
    whole = (lengths > 0) & (lengths * uses.granule_tokens == uses.prompt_tokens)
    distances[uses.starts[1:][whole] - 1] = 0
    counts = np.bincount(distances)
    if len(counts):
        counts[0] = 0
    hits = np.cumsum(counts, dtype=np.int64) if len(counts) else np.zeros(1, dtype=np.int64)
    seen = len(np.unique(uses.ids))
    return Curve(hits, int(uses.prompt_tokens.sum()), uses.granule_tokens, seen)


def working_sets(uses: Uses, windows: Sequence[int]) -> list[int]:
    """Tokens of all different granules used in each window; `windows` are the first rows of each, and the end."""
    bounds = [(int(uses.starts[first]), int(uses.starts[last])) for first, last in pairwise(windows)]
    return [len(np.unique(uses.ids[start:end])) * uses.granule_tokens for start, end in bounds]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _distances(ids: Ids, starts: Counts, different: int) -> Ids:  # pragma: no cover - compiled
    """By use: how many granules an LRU cache needs to hit it; 0 for the first use of a granule."""
    tree = np.zeros(len(ids) + 1, dtype=np.int32)
    last = np.full(different, -1, dtype=np.int32)
    found = np.zeros(len(ids), dtype=np.int32)
    live = 0
    stamp = 0
    for row in range(len(starts) - 1):
        previous = -2
        for use in range(starts[row], starts[row + 1]):
            then = last[ids[use]]
            if then < 0:
                break
            if then == previous - 1:
                found[use] = found[use - 1] + 1  # used right before its neighbour: one granule deeper
            else:
                before, place = 0, then
                while place > 0:
                    before += tree[place]
                    place -= place & -place
                found[use] = live - before
            previous = then
        for use in range(starts[row + 1] - 1, starts[row] - 1, -1):
            then = last[ids[use]]
            if then >= 0:
                live -= 1
                place = then + 1
                while place <= stamp:
                    tree[place] -= 1
                    place += place & -place
            last[ids[use]] = stamp
            stamp += 1
            live += 1
            covered, place, stop = 1, stamp - 1, stamp - (stamp & -stamp)
            while place > stop:
                covered += tree[place]
                place -= place & -place
            tree[stamp] = covered
    return found
