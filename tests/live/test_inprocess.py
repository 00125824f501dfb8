"""LMCache inside vLLM's workers, on the CPU engine: the KV that Valkey gives back is the KV that was computed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.conftest import Kvreplay
from tests.live.served import CHUNKS_TOKENS, PROMPTS, Answer, Served, agree, up

pytestmark = pytest.mark.usefixtures("alone")

_HERE = Path(__file__).parent
_KEYS = PROMPTS * CHUNKS_TOKENS // 256


@pytest.fixture(scope="module", params=["sync", "async"])
def served(request: pytest.FixtureRequest, kvreplay: Kvreplay) -> Iterator[Served]:
    """One rank and two Valkeys; loads in the engine's step, then beside it."""
    with up(kvreplay, request.param, _HERE / "inprocess.yaml") as stack:
        yield stack


@pytest.fixture(scope="module")
def two_ranks(kvreplay: Kvreplay) -> Iterator[Served]:
    """Two ranks, each with a Valkey of its own."""
    with up(kvreplay, "ranks", _HERE / "inprocess-tp2.yaml") as stack:
        yield stack


def _computed(stack: Served, keys: int) -> list[Answer]:
    answers = [stack.ask(prompt) for prompt in range(PROMPTS)]
    assert [cached for _, _, cached in answers] == [0] * PROMPTS
    stack.until_stored(keys)
    return answers


def _loaded(stack: Served) -> list[Answer]:
    stack.empty_engine()
    answers = [stack.ask(prompt) for prompt in range(PROMPTS)]
    assert [cached for _, _, cached in answers] == [CHUNKS_TOKENS] * PROMPTS
    return answers


def test_valkeys_give_the_computed_answer(served: Served) -> None:
    """Engine emptied: every whole chunk comes from the two Valkeys, twice, and the answers are the computed ones."""
    computed = _computed(served, _KEYS)
    assert len({text for text, _, _ in computed}) == PROMPTS
    assert all(served.stored()), "placement by chunk uses both"
    agree(_loaded(served), computed)
    agree(_loaded(served), computed)


def test_without_its_keys_everything_is_computed_again(served: Served) -> None:
    """Otherwise the hits above were not Valkey's."""
    served.empty_engine()
    served.empty_valkeys()
    assert [served.ask(prompt)[2] for prompt in range(PROMPTS)] == [0] * PROMPTS


def test_each_rank_keeps_its_part_on_its_own_valkey(two_ranks: Served) -> None:
    """Rank 0's keys on the first, rank 1's on the second, and together they give the computed answers."""
    computed = _computed(two_ranks, 2 * _KEYS)
    for rank, keys in enumerate(two_ranks.keys()):
        assert [key.split(b"@")[1:3] for key in keys] == [[b"2", str(rank).encode()]] * _KEYS
    agree(_loaded(two_ranks), computed)
