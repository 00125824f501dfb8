"""Traces drawn by hypothesis: prompts that share prefixes in every way that block ids can say."""

from itertools import accumulate

from hypothesis import strategies as st

from harness.trace import Trace, TraceRequest

BLOCK = 32


@st.composite
def traces(draw: st.DrawFn, max_rows: int = 12) -> Trace:
    """Traces of blocks of 32 tokens whose ids stand for prefixes; a last block may be in part, or without an id."""
    rows = draw(
        st.lists(
            st.tuples(
                st.lists(st.integers(0, 2), max_size=5).map(tuple),  # the path from the root, one branch a block
                st.integers(0, BLOCK - 1),  # tokens behind the last whole block
                st.booleans(),  # which have an id or not
                st.integers(1, 99),  # the answer
                st.integers(0, 10**7),  # the gap before
                st.sampled_from(["", "a", "b", "c"]),
                st.none() | st.integers(0, 10**7),
            ),
            min_size=1,
            max_size=max_rows,
        )
    )
    ids: dict[object, int] = {}
    turns: dict[str, int] = {}
    times = [0, *accumulate(gap for *_, gap, _, _ in rows[1:])]
    requests = []
    for row, (path, tail, hashed, output, _, session, delay_us) in enumerate(rows):
        rest = tail if path or tail else 1
        names: list[object] = [path[: depth + 1] for depth in range(len(path))]
        names += [(path, rest)] if rest and hashed else []
        turn = turns.get(session, 0)
        turns[session] = turn + 1
        requests.append(
            TraceRequest(
                row,
                session,
                turn if session else 0,
                times[row],
                BLOCK * len(path) + rest,
                output,
                tuple(ids.setdefault(name, len(ids)) for name in names),
                delay_us if session and turn else None,
            )
        )
    return Trace(tuple(requests), BLOCK, "drawn", "unstated")


def shared_tokens(one: TraceRequest, other: TraceRequest, block_size: int) -> int:
    """How many leading tokens two prompts share, by their block ids."""
    pairs = zip(one.blocks, other.blocks, strict=False)
    blocks = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one.blocks), len(other.blocks)))
    return min(blocks * block_size, one.input_tokens, other.input_tokens)
