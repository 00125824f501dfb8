"""Turns that count only what is new, made into prompts."""

from itertools import accumulate as running
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.trace import TraceRequest
from harness.trace.turns import accumulate

SIZE = 16


def row(number: int, session: str, new_tokens: int, output: int, blocks: tuple[int, ...] = ()) -> TraceRequest:
    """A turn that adds `new_tokens`."""
    return TraceRequest(number, session, 0, number, new_tokens, output, blocks)


def test_a_prompt_holds_the_turns_and_answers_before() -> None:
    """The published case: 1,000 tokens, then 200 more, after an answer of 53."""
    rows = accumulate([row(0, "s", 1000, 53), row(1, "s", 200, 9), row(2, "", 7, 1)], SIZE)

    assert [one.input_tokens for one in rows] == [1000, 1253, 7]


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 60), st.integers(1, 30)), max_size=12))
def test_turns_share_all_whole_blocks_of_the_turn_before(drawn: list[tuple[str, int, int]]) -> None:
    """Lengths are those of prompts, blocks the whole ones; a turn begins as the one before, sessions share nothing."""
    turns = [row(number, *each) for number, each in enumerate(drawn)]
    made = list(accumulate(turns, SIZE))

    for session in ("a", "b"):
        mine = [one for one in made if one.session == session]
        added = [(one.input_tokens, one.output_tokens) for one in turns if one.session == session]
        ends = list(running(sum(each) for each in added))
        assert [one.input_tokens for one in mine] == [end - out for end, (_, out) in zip(ends, added, strict=True)]
        for one in mine[1:]:
            assert len(one.blocks) == one.input_tokens // SIZE
        for one, later in pairwise(mine):
            assert later.blocks[: len(one.blocks)] == one.blocks
    ids = [{block for one in made if one.session == session for block in one.blocks} for session in ("a", "b")]
    assert not ids[0] & ids[1]


def test_sessions_share_what_their_first_turns_share() -> None:
    """Ids of first turns stay, a partial one at the end of the first prompt only; those of later turns say nothing."""
    made = list(
        accumulate(
            [
                row(0, "a", 40, 8, (0, 1, 2)),
                row(1, "b", 40, 8, (0, 1, 2)),
                row(2, "a", 16, 8, (3,)),
                row(3, "", 16, 8, (3,)),
            ],
            SIZE,
        )
    )

    assert [one.blocks for one in made] == [(0, 1, 2), (0, 1, 2), (0, 1, 3, 4), (5,)]
    assert [one.input_tokens for one in made] == [40, 40, 64, 16]
