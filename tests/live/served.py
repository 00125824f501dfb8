"""A stack that `kvreplay up` holds: asked, its caches emptied one by one, and its answers compared."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import valkey

from harness.schedule.tokens import Prompting, prompt_tokens
from tests.live.conftest import CONFIG, Kvreplay

_PROMPT_TOKENS = 533
CHUNKS_TOKENS = 512
PROMPTS = 6
KEYS = PROMPTS * CHUNKS_TOKENS // 256
_LOGPROB_NOISE = (
    0.25  # bfloat16 has 8 bits: measured 0.09 between recompute and a hit; a wrong KV is off by whole units
)
_FEWEST_EQUAL = 5  # of PROMPTS: noise may tip one answer whose best two tokens are within it

Answer = tuple[str, list[float], int]


class Served:
    """A stack that is up: ask it, and empty its caches one by one."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state
        self.http = httpx.Client(timeout=300.0)

    def ask(self, prompt: int) -> Answer:
        """Four tokens after prompt number `prompt`, their logprobs, and how many prompt tokens were cached."""
        prompting = Prompting(self.state["model"], "kv-is-right", 4, 32_000)
        tokens = prompt_tokens(prompting, [(prompt, _PROMPT_TOKENS)])
        body = {"model": self.state["model"], "prompt": tokens.tolist(), "max_tokens": 4, "temperature": 0}
        response = self.http.post(
            f"{self.state['url']}/v1/completions", json={**body, "ignore_eos": True, "logprobs": 1}
        )
        response.raise_for_status()
        answer = response.json()
        choice, details = answer["choices"][0], answer["usage"]["prompt_tokens_details"]
        return choice["text"], choice["logprobs"]["token_logprobs"], (details or {}).get("cached_tokens") or 0

    def empty_engine(self) -> None:
        """vLLM's own cache, once no block is held."""
        for _ in range(100):
            if self.http.post(f"{self.state['url']}/reset_prefix_cache").json()["success"]:
                return
            time.sleep(0.1)
        raise AssertionError("the prefix cache is never free")

    def empty_l1(self) -> None:
        """LMCache's host tier; inside vLLM's workers it is kept empty by policy."""
        if self.state["lmcache_url"] is None:
            return
        self.http.post(f"{self.state['lmcache_url']}/cache/clear").raise_for_status()

    def stored(self) -> list[int]:
        """Keys in each Valkey."""
        counts = []
        for url in self.state["valkey_urls"]:
            with valkey.Valkey.from_url(url) as instance:
                counts.append(instance.dbsize())
        return counts

    def keys(self) -> list[list[bytes]]:
        """Keys in each Valkey, by name."""
        found = []
        for url in self.state["valkey_urls"]:
            with valkey.Valkey.from_url(url) as instance:
                found.append(instance.keys())
        return found

    def empty_valkeys(self) -> None:
        """Every instance."""
        for url in self.state["valkey_urls"]:
            with valkey.Valkey.from_url(url) as instance:
                instance.flushall()

    def until_stored(self, keys: int) -> None:
        """LMCache stores behind the engine's back: wait until that many keys are there."""
        for _ in range(600):
            if sum(self.stored()) >= keys:
                return
            time.sleep(0.1)
        raise AssertionError(f"{self.stored()} keys were stored, {keys} should be")


@contextlib.contextmanager
def up(kvreplay: Kvreplay, arm: str, config: Path = CONFIG) -> Iterator[Served]:
    """An arm of `config` (the small experiment), up until the end of the block; nothing of it is left then."""
    served = Served(json.loads(kvreplay("up", str(config), "--arm", arm)))
    try:
        yield served
    finally:
        served.http.close()
        assert "is down" in kvreplay("down")
        assert kvreplay.survivors() == []


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


def agree(answers: list[Answer], computed: list[Answer]) -> None:
    """Fails unless the answers are the computed ones, logprobs equal within bfloat16's noise."""
    equal = [one[0] == other[0] for one, other in zip(answers, computed, strict=True)]
    assert sum(equal) >= _FEWEST_EQUAL, f"{equal}"
    for one, other, same in zip(answers, computed, equal, strict=True):
        if same:
            assert one[1] == pytest.approx(other[1], abs=_LOGPROB_NOISE)
