"""LMCache inside vLLM's workers, on the CPU engine: the KV that Valkey gives back is the KV that was computed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.conftest import Kvreplay
from tests.live.served import CHUNKS_TOKENS, PROMPTS, Answer, Served, agree, up

pytestmark = pytest.mark.usefixtures("alone")

_HERE = Path(__file__).parent
KEYS = PROMPTS * CHUNKS_TOKENS // 256


@pytest.fixture(scope="module", params=["sync", "async"])
def served(request: pytest.FixtureRequest, kvreplay: Kvreplay) -> Iterator[Served]:
    """One rank and two Valkeys; loads in the engine's step, then beside it."""
    with up(kvreplay, request.param, _HERE / "inprocess.yaml") as stack:
        yield stack


def computed(stack: Served, keys: int) -> list[Answer]:
    """Every prompt's answer when all of it is computed, and so many keys stored."""
    answers = [stack.ask(prompt) for prompt in range(PROMPTS)]
    assert [cached for _, _, cached in answers] == [0] * PROMPTS
    stack.until_stored(keys)
    return answers


def loaded(stack: Served) -> list[Answer]:
    """Every prompt's answer with the engine's own cache emptied: all whole chunks are hits."""
    stack.empty_engine()
    answers = [stack.ask(prompt) for prompt in range(PROMPTS)]
    assert [cached for _, _, cached in answers] == [CHUNKS_TOKENS] * PROMPTS
    return answers


def test_valkeys_give_the_computed_answer(served: Served) -> None:
    """Engine emptied: every whole chunk comes from the two Valkeys, twice, and the answers are the computed ones."""
    answers = computed(served, KEYS)
    assert len({text for text, _, _ in answers}) == PROMPTS
    assert all(served.stored()), "placement by chunk uses both"
    agree(loaded(served), answers)
    agree(loaded(served), answers)


def test_without_its_keys_everything_is_computed_again(served: Served) -> None:
    """Otherwise the hits above were not Valkey's."""
    served.empty_engine()
    served.empty_valkeys()
    assert [served.ask(prompt)[2] for prompt in range(PROMPTS)] == [0] * PROMPTS
