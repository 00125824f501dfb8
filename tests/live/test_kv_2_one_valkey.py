"""KV from one Valkey, skipping L1, gives the answer that computing it gives: on another engine, after a restart."""

from tests.live.conftest import Kvreplay
from tests.live.served import CHUNKS_TOKENS, PROMPTS, Answer, agree, up


def test_one_valkey_gives_the_computed_answer(kvreplay: Kvreplay, computed_answers: list[Answer]) -> None:
    """Computed anew, then loaded with engine and L1 emptied: the same answers, and those of the other engine."""
    with up(kvreplay, "valkey-1") as one:
        computed = [one.ask(prompt) for prompt in range(PROMPTS)]
        assert all(cached == 0 for _, _, cached in computed)
        one.until_stored(PROMPTS * CHUNKS_TOKENS // 256)
        one.empty_engine()
        one.empty_l1()
        loaded = [one.ask(prompt) for prompt in range(PROMPTS)]
        assert [cached for _, _, cached in loaded] == [CHUNKS_TOKENS] * PROMPTS
        agree(loaded, computed)
        if computed_answers:  # empty when this file runs alone
            agree(loaded, computed_answers)
