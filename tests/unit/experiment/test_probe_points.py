"""What a probe sends, and why a remote cache never hits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import StackError
from harness.experiment.probe_points import (
    TAIL_TOKENS,
    Evidence,
    points_of,
    probe_lengths,
    probe_prompts,
    why_no_hits,
)
from harness.records import Outcome, RequestRecord
from harness.schedule import Prompting
from tests.fakes.records import CELL

PROMPTING = Prompting("m", "salt", 4, 32_000)


def test_the_laptops_lengths() -> None:
    """1,301 tokens are five chunks of 256: two, five and ten chunks are measured; a half where ten are not allowed."""
    assert probe_lengths(1301, 256, 4095) == (512, 1280, 2560)
    assert probe_lengths(1301, 256, 1400) == (512, 768, 1280)


@settings(deadline=None)
@given(longest=st.integers(1, 200_000), granule=st.integers(1, 1024), most=st.none() | st.integers(1, 200_000))
def test_lengths_fit_and_are_enough(longest: int, granule: int, most: int | None) -> None:
    """Whole granules in order; none longer than allowed; three wherever three fit."""
    lengths = probe_lengths(longest, granule, most)
    assert list(lengths) == sorted(set(lengths))
    assert all(length % granule == 0 and length > 0 for length in lengths)
    if most is not None:
        assert all(length + TAIL_TOKENS < most for length in lengths)
        assert len(lengths) >= min(3, max(0, (most - TAIL_TOKENS - 1) // granule))


def test_prompts_are_all_different_and_lengths_take_turns() -> None:
    """No two begin with the same token; a length comes again only after all others; the shortest begins."""
    prompts = probe_prompts(PROMPTING, (256, 512, 1024), 4)
    assert len({int(prompt.tokens[0]) for prompt in prompts}) == 13
    assert [len(prompt.tokens) - TAIL_TOKENS for prompt in prompts] == [256, *([256, 512, 1024] * 4)]
    assert [prompt.seq for prompt in prompts] == list(range(13))


def request_record(seq: int, cached_tokens: int | None = 0, outcome: Outcome = Outcome.OK) -> RequestRecord:
    """A request of 600 tokens whose first token took 0.2 s."""
    return RequestRecord(
        cell=CELL,
        seq=seq,
        row=seq,
        session="",
        prompt_tokens_planned=600,
        max_tokens=1,
        due_ns=0,
        outcome=outcome,
        source="live",
        sent_ns=0,
        first_token_ns=200_000_000,
        cached_tokens=cached_tokens,
    )


def test_a_failed_or_warm_prompt_makes_no_point() -> None:
    """A probe on wrong answers is an error, never a rate."""
    ok = request_record(seq=0, cached_tokens=0)
    assert len(points_of([ok], loaded=False, where="here")) == 1
    with pytest.raises(StackError, match="in a cache already"):
        points_of([ok, request_record(seq=1, cached_tokens=256)], loaded=False, where="here")
    with pytest.raises(StackError, match="1 of 2 probe requests failed, the first with timeout"):
        points_of([ok, request_record(seq=1, outcome=Outcome.TIMEOUT)], loaded=False, where="here")


@pytest.mark.parametrize(
    ("evidence", "named"),
    [
        (Evidence(200, 256), "a chunk has 256 tokens and the prompts 200"),
        (Evidence(600, 256, local_hits=512), "vLLM's own cache answered 512 tokens"),
        (Evidence(600, 256, local_hits=0, external_queries=0), "never asked a connector"),
        (Evidence(600, 256, stored_keys=0, external_queries=600), "nothing was stored"),
        (
            Evidence(600, 256, stored_keys=20, stored_again_keys=20, external_queries=600),
            "prompts got other keys",
        ),
        (Evidence(600, 256, stored_keys=20, stored_again_keys=0, external_queries=600), "lookups do not find them"),
        (Evidence(600, 256, external_queries=600), "no Valkey says what was stored"),
    ],
)
def test_why_nothing_hits(evidence: Evidence, named: str) -> None:
    """Chunk too large, engine's own cache, no connector, no store, hash seed or salt: each is named with a remedy."""
    error = why_no_hits(evidence, "http://here")
    assert named in error.what
    assert error.remedy
    assert error.where == "http://here"


def test_another_hash_names_the_seed_and_the_salt() -> None:
    """What makes equal prompts get other keys is what one has to set."""
    error = why_no_hits(Evidence(600, 256, stored_keys=20, stored_again_keys=20), "here")
    assert "PYTHONHASHSEED" in error.remedy
    assert "salt" in error.remedy
