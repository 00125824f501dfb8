"""KV from vLLM's cache, from L1 and from four Valkeys gives the answer that computing it gives."""

import pytest

from tests.live.served import CHUNKS_TOKENS, PROMPTS, Answer, Served, agree


@pytest.fixture(scope="module")
def computed(four: Served) -> list[Answer]:
    """Every prompt's answer when all of it is computed; afterwards its KV is stored everywhere."""
    before = sum(four.stored())
    answers = [four.ask(prompt) for prompt in range(PROMPTS)]
    four.until_stored(before + PROMPTS * CHUNKS_TOKENS // 256)
    return answers


def test_different_prompts_get_different_answers(computed: list[Answer]) -> None:
    """Otherwise nothing here could tell right KV from wrong."""
    assert len({text for text, _, _ in computed}) == PROMPTS
    assert all(cached == 0 for _, _, cached in computed)


def test_the_engines_own_cache_gives_the_computed_answer(four: Served, computed: list[Answer]) -> None:
    """The prompt just asked is asked again: its whole blocks come from vLLM's cache."""
    four.empty_engine()
    four.empty_l1()
    answers = []
    for prompt in range(PROMPTS):
        four.ask(prompt)
        answers.append(four.ask(prompt))
    assert [cached for _, _, cached in answers] == [CHUNKS_TOKENS] * PROMPTS
    agree(answers, computed)


def _store_anew(four: Served) -> None:
    """Every cache emptied, every prompt computed again: its KV is then in the engine, in L1 and in the Valkeys."""
    four.empty_engine()
    four.empty_l1()
    four.empty_valkeys()
    assert [four.ask(prompt)[2] for prompt in range(PROMPTS)] == [0] * PROMPTS
    four.until_stored(PROMPTS * CHUNKS_TOKENS // 256)


def test_l1_gives_the_computed_answer(four: Served, computed: list[Answer]) -> None:
    """Engine emptied, every Valkey emptied: what is cached comes from LMCache's host memory."""
    _store_anew(four)
    four.empty_engine()
    four.empty_valkeys()
    answers = [four.ask(prompt) for prompt in range(PROMPTS)]
    assert [cached for _, _, cached in answers] == [CHUNKS_TOKENS] * PROMPTS
    agree(answers, computed)


def test_four_valkeys_give_the_computed_answer(four: Served, computed: list[Answer]) -> None:
    """Engine and L1 emptied: every hit comes from the four, which all hold some of it."""
    _store_anew(four)
    assert sum(count > 0 for count in four.stored()) >= 2, "placement by chunk uses several instances"
    four.empty_engine()
    four.empty_l1()
    answers = [four.ask(prompt) for prompt in range(PROMPTS)]
    assert [cached for _, _, cached in answers] == [CHUNKS_TOKENS] * PROMPTS
    agree(answers, computed)
