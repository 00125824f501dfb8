"""Prompts built from a trace and sent to live vLLM: exact to the token, equal under one salt, new under another."""

import json
from fractions import Fraction

import pytest

from harness.schedule import PlannedRequest, Prompting, plan_trace
from harness.trace import MakeSpec, make_trace
from harness.trace.lengths import scale_lengths
from tests.live.served import CHUNKS_TOKENS, Served

PREFIXES = 6
TRACE = scale_lengths(make_trace(MakeSpec(requests=4 * PREFIXES, prefixes=PREFIXES)), Fraction(1, 32))
"""Four cycles over six prefixes of 512 tokens, suffixes of 1 to 8, answers of 1 to 5."""


def planned(served: Served, salt: str) -> tuple[PlannedRequest, ...]:
    """The trace as requests, under a salt."""
    prompting = Prompting(served.state["model"], salt, 4, 32_000)
    return plan_trace("prompts", TRACE, prompting, prewarm=False).passes[0].requests


def usage(served: Served, request: PlannedRequest) -> dict[str, int]:
    """What the server counted for a request sent with the very bytes of the plan: prompt, completion, cached tokens."""
    response = served.http.post(
        f"{served.state['url']}/v1/completions", content=request.body, headers={"Content-Type": "application/json"}
    )
    response.raise_for_status()
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    counted = events[-1]["usage"]
    cached = (counted.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return {"prompt": counted["prompt_tokens"], "completion": counted["completion_tokens"], "cached": cached}


@pytest.fixture(scope="module")
def first_run(four: Served) -> list[dict[str, int]]:
    """The whole trace under salt `one`, and its shared chunks stored when it is over."""
    before = sum(four.stored())
    counted = [usage(four, request) for request in planned(four, "one")]
    four.until_stored(before + PREFIXES * CHUNKS_TOKENS // 256)
    return counted


def test_the_server_counts_the_tokens_of_every_row(four: Served, first_run: list[dict[str, int]]) -> None:
    """Prompt and answer are as long as the row says: no tokenizer between the plan and the engine."""
    assert [one["prompt"] for one in first_run] == [row.input_tokens for row in TRACE.requests]
    assert [one["prompt"] for one in first_run] == [len(request.tokens) for request in planned(four, "one")]
    assert [one["completion"] for one in first_run] == [row.output_tokens for row in TRACE.requests]


def test_the_first_use_of_a_prefix_finds_nothing(first_run: list[dict[str, int]]) -> None:
    """No prompt begins as another one does by accident."""
    assert [one["cached"] for one in first_run[:PREFIXES]] == [0] * PREFIXES


def test_one_salt_makes_the_same_prompts_again(four: Served, first_run: list[dict[str, int]]) -> None:
    """A second run sends the same bytes, and the caches know every one of its prompts: all whole chunks hit."""
    again = planned(four, "one")
    assert [one.body for one in again] == [one.body for one in planned(four, "one")]
    assert len(first_run) == len(again)
    assert [usage(four, request)["cached"] for request in again] == [CHUNKS_TOKENS] * len(again)


@pytest.mark.usefixtures("first_run")
def test_another_salt_hits_nothing(four: Served) -> None:
    """The same rows under a new salt: caches full of the old prompts know none of them."""
    fresh = planned(four, "another")[:PREFIXES]
    counted = [usage(four, request) for request in fresh]
    assert [one["prompt"] for one in counted] == [len(request.tokens) for request in fresh]
    assert [one["cached"] for one in counted] == [0] * PREFIXES
