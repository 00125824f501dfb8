"""Token ids of blocks."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.schedule import Prompting, block_tokens, prompt_tokens

BLOCKS = st.integers(0, 2**40)


def prompting(salt: str = "salt", low: int = 10, high: int = 32_000) -> Prompting:
    """A prompting of this salt and vocabulary."""
    return Prompting("model", salt, low, high)


@settings(deadline=None)
@given(st.text(max_size=8), BLOCKS, st.integers(0, 700), st.integers(0, 2**31), st.integers(2, 2**31))
def test_tokens_are_a_function_of_salt_block_and_position(
    salt: str, block: int, count: int, low: int, size: int
) -> None:
    """Fewer tokens of a block are the first of more; all are uint32 within the vocabulary."""
    made = prompting(salt, low, low + size)
    tokens = block_tokens(made, block, count)

    assert tokens.dtype == np.uint32
    assert tokens.shape == (count,)
    assert all(low <= token < low + size for token in tokens.tolist())
    np.testing.assert_array_equal(tokens[: count // 2], block_tokens(made, block, count // 2))


@settings(deadline=None)
@given(st.text(max_size=8), st.integers(2, 300), st.integers(0, 2**40))
def test_blocks_differ_from_their_first_token_on(salt: str, size: int, start: int) -> None:
    """As many blocks as token ids all begin differently."""
    made = prompting(salt, 5, 5 + size)

    assert len({int(block_tokens(made, block, 3)[0]) for block in range(start, start + size)}) == size


@settings(deadline=None)
@given(st.text(max_size=8), st.integers(2, 12))
def test_more_blocks_than_token_ids_differ_within_two_tokens(salt: str, size: int) -> None:
    """As many blocks as there are pairs of token ids all begin with another pair."""
    made = prompting(salt, 0, size)

    assert len({tuple(block_tokens(made, block, 2).tolist()) for block in range(size**2)}) == size**2


@settings(deadline=None)
@given(st.lists(BLOCKS, min_size=1, max_size=5), st.text(max_size=6), st.text(max_size=6))
def test_another_salt_makes_other_tokens_everywhere(blocks: list[int], one: str, other: str) -> None:
    """Under another salt no run of 16 tokens, the smallest that a cache keeps, is the same."""
    if one == other:
        other += "'"
    parts = [(block, 64) for block in blocks]
    first = prompt_tokens(prompting(one), parts).reshape(-1, 16)
    second = prompt_tokens(prompting(other), parts).reshape(-1, 16)

    assert not (first == second).all(axis=1).any()


def test_tokens_are_spread_over_the_vocabulary() -> None:
    """Draws are uniform: 100,000 of them over 100 ids fit a chi-square of 99 degrees of freedom."""
    tokens = prompt_tokens(prompting("spread", 0, 100), [(block, 1000) for block in range(100)])
    counts = np.bincount(tokens, minlength=100)

    assert ((counts - 1000) ** 2 / 1000).sum() < 160


def test_another_process_makes_the_same_tokens() -> None:
    """Neither the process nor its hash seed matters."""
    program = (
        "from harness.schedule import Prompting, prompt_tokens;"
        "print(prompt_tokens(Prompting('model', 'salt', 10, 32000), [(3, 40), (2**33, 7)]).tolist())"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True
    ).stdout

    assert out.strip() == str(prompt_tokens(prompting(), [(3, 40), (2**33, 7)]).tolist())


def test_tokens_never_change() -> None:
    """The derivation is fixed: results of two versions can be paired only if their prompts are the same."""
    assert block_tokens(prompting(), 3, 6).tolist() == [26506, 22208, 14349, 12267, 24883, 11714]


def test_a_block_cannot_be_written_to() -> None:
    """Blocks are shared between prompts, so nobody may change one."""
    with pytest.raises(ValueError, match="read-only"):
        block_tokens(prompting(), 0, 4)[0] = 1


@pytest.mark.parametrize(("low", "high"), [(-1, 5), (5, 5), (5, 6), (0, 2**32 + 2)])
def test_refuses_a_vocabulary_without_choice(low: int, high: int) -> None:
    """A vocabulary holds at least two ids of 32 bits."""
    with pytest.raises(ValueError, match="vocabulary"):
        prompting(low=low, high=high)
