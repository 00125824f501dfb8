"""Block ids become dense ones, and are held to what was declared of them: one id, one content, one size."""

from array import array
from collections.abc import Sequence

from harness.trace.fields import RowError, shown
from harness.trace.sidecar import Sidecar

_USUAL_BLOCK_SIZES = (16, 32, 64, 128, 256, 512, 1024)
_SPARE = 1 << 16


class BlockTable:
    """The ids seen so far. Memory: 12 bytes for each of nearly dense ids (published traces), a dict's entry for others.

    Dense ids count from 0 in the order in which `add` first sees them; ids of different scopes are never equal.
    """

    def __init__(self, declared: Sidecar) -> None:
        self._size, self._tail = declared.block_size, declared.tail
        self._chained = declared.hash_kind == "prefix"
        self._scopes: dict[str, _Ids] = {}
        self._previous = array("i")  # by dense id: the id before it, -1 at the start of a prompt
        self._first_row = array("I")  # by dense id: the row that had it first, counted from 1
        self._part: dict[int, int] = {}  # dense ids of fewer tokens than a block, with their tokens

    def __len__(self) -> int:
        return len(self._first_row)

    def add(self, ids: Sequence[int | str], input_tokens: int, scope: str, row: int) -> tuple[int, ...]:
        """The dense ids of a row (numbered from 1) whose count `check_count` has accepted.

        Raises RowError, and remembers nothing of the row, where an id stands for another number of tokens than in an
        earlier row, or follows another id than there although ids are declared to stand for whole prefixes.
        """
        if not ids:
            return ()
        table = self._scopes.get(scope)
        if table is None:
            table = self._scopes[scope] = _Ids()
        known = table.known(ids)
        fresh = known.count(-1)
        seen = len(ids) - fresh
        blocks, names = known, ids[seen:]
        if fresh:
            # Fresh ids behind known ones, and all different: the only shape that a new prefix has.
            if -1 in known[:seen] or len(set(names)) < fresh:
                blocks, names = self._mixed(ids, known)
            else:
                blocks = known[:seen]
                blocks.extend(range(len(self), len(self) + fresh))
        self._check_sizes(ids, blocks, input_tokens)
        if self._chained:
            self._check_chain(ids, blocks, seen)
        if names:
            self._remember(table, names, blocks, input_tokens, row)
        return tuple(blocks)

    def _mixed(self, ids: Sequence[int | str], known: list[int]) -> tuple[list[int], list[int | str]]:
        """Dense ids, and which are fresh, where a fresh one lies before a known one or comes twice: contents may."""
        blocks: list[int] = []
        fresh: dict[int | str, int] = {}
        for position, (name, dense) in enumerate(zip(ids, known, strict=True)):
            if self._chained and dense != -1 and fresh:
                self._refuse_chain(name, dense, ids[position - 1])
            if self._chained and name in fresh:
                raise RowError(
                    f"hash_ids has {shown(name)} twice, but ids stand for a block and all before it",
                    remedy="correct the row, or declare hash_kind content",
                    reason="hash_ids: one id behind two prefixes",
                )
            blocks.append(fresh.setdefault(name, len(self) + len(fresh)) if dense == -1 else dense)
        return blocks, list(fresh)

    def _check_sizes(self, ids: Sequence[int | str], blocks: list[int], input_tokens: int) -> None:
        last = min(self._size, input_tokens - (len(blocks) - 1) * self._size)
        whole = blocks if last == self._size else blocks[:-1]
        if self._part and not self._part.keys().isdisjoint(whole):
            place = next(i for i, dense in enumerate(whole) if dense in self._part)
            self._refuse_sizes(ids[place], blocks[place], self._size)
        if last == self._size:
            return
        end = blocks[-1]
        if end < len(self) and self._part.get(end, self._size) != last:
            self._refuse_sizes(ids[-1], end, last)
        if blocks.count(end) > 1:
            raise RowError(
                f"hash_ids has {shown(ids[-1])} twice, for {self._size} and for {last} tokens",
                remedy="give blocks of different content different ids",
                reason="hash_ids: one id for two sizes",
            )

    def _check_chain(self, ids: Sequence[int | str], blocks: list[int], seen: int) -> None:
        known = blocks[:seen]
        before = [-1, *known[:-1]] if known else known
        if list(map(self._previous.__getitem__, known)) != before:
            place = next(i for i, dense in enumerate(known) if self._previous[dense] != before[i])
            self._refuse_chain(ids[place], known[place], ids[place - 1] if place else None)

    def _remember(
        self, table: "_Ids", names: Sequence[int | str], blocks: list[int], input_tokens: int, row: int
    ) -> None:
        held, fresh = len(self), len(names)
        table.set(names, held)
        self._first_row.extend(array("I", (row,)) * fresh)
        if self._chained:
            before = blocks[-fresh - 1] if len(blocks) > fresh else -1
            self._previous.append(before)
            self._previous.extend(array("i", range(held, held + fresh - 1)))
        last = input_tokens - (len(blocks) - 1) * self._size
        if last < self._size and blocks[-1] >= held:
            self._part[blocks[-1]] = last

    def _refuse_sizes(self, name: int | str, dense: int, tokens: int) -> None:
        raise RowError(
            f"hash_ids has {shown(name)} for {tokens} tokens, "
            f"but row {self._first_row[dense]} has it for {self._part.get(dense, self._size)}",
            remedy="give blocks of other content other ids; if the rule is another, declare it",
            reason="hash_ids: one id for two sizes",
        )

    def _refuse_chain(self, name: int | str, dense: int, after: int | str | None) -> None:
        here = "first" if after is None else f"behind {shown(after)}"
        there = "first" if self._previous[dense] == -1 else "behind another id"
        raise RowError(
            f"hash_ids has {shown(name)} {here}, but row {self._first_row[dense]} has it {there}: "
            "ids stand for a block and all before it",
            remedy="correct the row, or declare hash_kind content",
            reason="hash_ids: one id behind two prefixes",
        )


class _Ids:
    """The ids of one scope, with their dense ids: an array while they are nearly dense integers, else a dict."""

    def __init__(self) -> None:
        self._dense = array("i")
        self._by_name: dict[int | str, int] | None = None
        self._count = 0

    def known(self, ids: Sequence[int | str]) -> list[int]:
        """The dense id of each name, -1 for those that have none yet."""
        if self._by_name is None:
            self._make_room(ids)
        if self._by_name is None:
            return list(map(self._dense.__getitem__, ids))  # type: ignore[arg-type]
        return [self._by_name.get(name, -1) for name in ids]

    def set(self, names: Sequence[int | str], first: int) -> None:
        """Gives names their dense ids, from `first` on."""
        end = first + len(names)
        self._count += len(names)
        if self._by_name is not None:
            self._by_name.update(zip(names, range(first, end), strict=True))
            return
        low: int = names[0]  # type: ignore[assignment]
        if names == list(range(low, low + len(names))):  # as in every published trace
            self._dense[low : low + len(names)] = array("i", range(first, end))
        else:
            for dense, name in enumerate(names, start=first):
                self._dense[name] = dense  # type: ignore[index]

    def _make_room(self, ids: Sequence[int | str]) -> None:
        """Lengthens the array for these names, or gives it up where they are strings or far apart."""
        try:
            top: int = max(ids)  # type: ignore[assignment]
            if top < len(self._dense):
                return
            scattered = top > 4 * self._count + _SPARE
        except TypeError:
            scattered = True
        if scattered:
            self._by_name = {name: dense for name, dense in enumerate(self._dense) if dense != -1}
            self._dense = array("i")
        else:
            more = max(top + 1 - len(self._dense), len(self._dense) // 2)
            self._dense.frombytes(b"\xff" * (more * self._dense.itemsize))


def check_count(count: int, input_tokens: int, declared: Sidecar) -> None:
    """Raises RowError unless a prompt of `input_tokens` may have `count` ids (from 1) under the declared tail rule."""
    size, tail = declared.block_size, declared.tail
    whole = ids_of(input_tokens, size, tail)
    if count == whole or (tail == "unhashed" and count < whole):
        return
    fitting = [str(b) for b in _USUAL_BLOCK_SIZES if ids_of(input_tokens, b, tail) == count]
    hint = f" (this row fits {' and '.join(fitting)})" if fitting and tail != "unhashed" else ""
    first = {"ceil": (count - 1) * size + 1}.get(tail, count * size)
    last = {"ceil": f" to {count * size}", "floor": f" to {(count + 1) * size - 1}"}.get(tail, " or more")
    raise RowError(
        f"hash_ids has {count} ids, which need {first}{last} tokens at block_size {size} (tail {tail}), "
        f"but input_length is {input_tokens}",
        remedy=f"correct the row, or declare block_size{hint} and tail",
        reason="hash_ids: another count than input_length needs",
    )


def ids_of(input_tokens: int, block_size: int, tail: str) -> int:
    """How many ids a prompt has under a tail rule; under `unhashed`, at most."""
    return -(-input_tokens // block_size) if tail == "ceil" else input_tokens // block_size
