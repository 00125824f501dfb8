"""What prompts share, and how long a cache must remember it: infinite-cache hits and reuse distances, row by row."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.trace.request import TraceRequest

_UNSEEN = -2
_ROOT = -1


@dataclass(frozen=True, slots=True)
class Reuse:
    """What one row finds in a cache that has kept every row before it.

    `blocks` leading blocks were there, `tokens` their tokens (the last block's perhaps in part). `distances` splits
    them by when they were last used, as (distance, tokens): a least-recently-used cache of at least `distance` tokens
    has them still. The distance is the tokens of all different prefixes used since, that last use included.
    """

    blocks: int
    tokens: int
    distances: tuple[tuple[int, int], ...]


class ReuseCounter:
    """Feed it rows in order of arrival; O(log n) a row and a use before it, 40 bytes a row, 24 a different block.

    A row uses all its tokens at once. What a row has behind its last block has no id: it takes room and is never
    found. Distances are Mattson's stack distances (Mattson and others, IBM Systems Journal, 1970), summed over the
    rows of last use by a Fenwick tree (Fenwick, 1994). Answers are not counted.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._tree = PrefixTree()
        self._last_row = array("q")  # by prefix: the row that used it last
        self._live = _GrowingSums()  # by row: tokens whose last use it is

    def add(self, request: TraceRequest) -> Reuse:
        """What this row finds; from now on it is one of those before."""
        prefixes = self._tree.walk(request.blocks)
        known = len(self._last_row)
        found = next((i for i, prefix in enumerate(prefixes) if prefix >= known), len(prefixes))
        distances = []
        runs = list(self._runs(prefixes[:found]))
        for row, start, end in runs:
            tokens = min(end * self._block_size, request.input_tokens) - start * self._block_size
            distances.append((self._live.total_from(row), tokens))
        for (row, _, _), (_, tokens) in zip(runs, distances, strict=True):
            self._live.add(row, -tokens)
        self._live.append(request.input_tokens)
        row = len(self._live) - 1
        for prefix in prefixes[:found]:
            self._last_row[prefix] = row
        self._last_row.extend([row] * (len(prefixes) - found))
        return Reuse(found, min(found * self._block_size, request.input_tokens), tuple(distances))

    @property
    def different_blocks(self) -> int:
        """How many blocks were seen, each with all before it."""
        return len(self._last_row)

    def _runs(self, prefixes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """(row, start, end): blocks start to end - 1 were last used by that row; the front ones by the latest."""
        start = 0
        for end in range(1, len(prefixes) + 1):
            row = self._last_row[prefixes[start]]
            if end == len(prefixes) or self._last_row[prefixes[end]] != row:
                yield row, start, end
                start = end


class PrefixTree:
    """Numbers prefixes from 0 in order of first use: the number is the same where all blocks up to there are equal.

    It makes no use of whether an id stands for a block or for all before it too; where it does, an id has one parent
    and costs 16 bytes.
    """

    def __init__(self) -> None:
        self._parents = array("q")  # by block id: the prefix it first came behind
        self._prefixes = array("q")  # by block id: the prefix it first ended
        self._elsewhere: dict[tuple[int, int], int] = {}  # an id behind another parent than its first
        self._count = 0

    def walk(self, blocks: Sequence[int]) -> list[int]:
        """The number of each prefix of `blocks`, the shortest first."""
        parents, prefixes = self._parents, self._prefixes
        more = max(blocks, default=-1) + 1 - len(parents)
        if more > 0:
            parents.extend(array("q", (_UNSEEN,)) * more)
            prefixes.extend(array("q", (0,)) * more)
        prefix, walked = _ROOT, []
        for block in blocks:
            parent = parents[block]
            if parent == prefix:
                prefix = prefixes[block]
            elif parent == _UNSEEN:
                parents[block], prefixes[block] = prefix, self._count
                prefix = self._count
                self._count += 1
            else:
                before = self._count
                prefix = self._elsewhere.setdefault((prefix, block), before)
                self._count += prefix == before
            walked.append(prefix)
        return walked


class _GrowingSums:
    """Fenwick's tree over a list that grows: append, change and sum from an index on, each in O(log n)."""

    def __init__(self) -> None:
        self._sums = array("q", [0])
        self._total = 0

    def __len__(self) -> int:
        return len(self._sums) - 1

    def append(self, value: int) -> None:
        position = len(self._sums)
        covered, stop = value, position - (position & -position)
        part = position - 1
        while part > stop:
            covered += self._sums[part]
            part -= part & -part
        self._sums.append(covered)
        self._total += value

    def add(self, index: int, change: int) -> None:
        self._total += change
        position = index + 1
        while position < len(self._sums):
            self._sums[position] += change
            position += position & -position

    def total_from(self, index: int) -> int:
        before, position = 0, index
        while position > 0:
            before += self._sums[position]
            position -= position & -position
        return self._total - before


def usable_hit(shared_tokens: int, prompt_tokens: int, granule_tokens: int) -> int:
    """What a cache of whole granules makes of a shared prefix: whole ones, and never the prompt's last token.

    vLLM computes at least one token of each prompt (`KVCacheManager.get_computed_blocks`), and so LMCache loads none
    of it.
    """
    return min(shared_tokens, prompt_tokens - 1) // granule_tokens * granule_tokens
