"""Sessions whose turns count only what is new: made into prompts that hold the turns before, as servers get them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from harness.trace.request import TraceRequest


def accumulate(rows: Iterable[TraceRequest], block_size: int) -> Iterator[TraceRequest]:
    """Rows of `turn_lengths` delta as rows of cumulative lengths; rows without a session are left as they are.

    A turn's prompt is the prompt before it, the answer to that, and its own new tokens. Its blocks are the whole
    blocks of what its session has said so far: those of the first turn keep their ids, so that sessions share what
    they began with; all later ones are the session's own, and a tail in part has no id. Ids are dense again, in order
    of first use.
    """
    names: dict[tuple[object, ...], int] = {}
    told: dict[str, int] = {}
    first: dict[str, tuple[int, ...]] = {}
    for row in rows:
        if not row.session:
            yield replace(row, blocks=tuple(_dense(names, ("id", block)) for block in row.blocks))
            continue
        tokens = told.get(row.session, 0) + row.input_tokens
        begun = first.setdefault(row.session, row.blocks[: row.input_tokens // block_size])
        keys: list[tuple[object, ...]] = [("id", block) for block in begun]
        keys += [("own", row.session, position) for position in range(len(begun), tokens // block_size)]
        if len(begun) < len(row.blocks) and row.session not in told:
            keys += [("id", block) for block in row.blocks[len(begun) :]]
        told[row.session] = tokens + row.output_tokens
        yield replace(row, input_tokens=tokens, blocks=tuple(_dense(names, key) for key in keys))


def _dense(names: dict[tuple[object, ...], int], key: tuple[object, ...]) -> int:
    return names.setdefault(key, len(names))
