"""Parts of an arm's requests."""

import dataclasses

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.arms import arm_findings
from harness.analysis.slices import length_buckets, lookup_outcomes
from tests.fakes.runs import FakePass, fake_run


@pytest.mark.parametrize(
    ("cached", "external", "expected"),
    [
        (0, 0, "miss"),
        (0, None, "miss"),
        (64, 0, "local hit"),
        (64, 64, "external hit"),
        (64, 32, "external hit"),
        (64, None, "hit"),
        (None, None, "unknown"),
    ],
)
def test_lookup_outcomes(cached: int | None, external: int | None, expected: str) -> None:
    """By the server's count of cached tokens, and where they are known to have come from."""
    rows = pd.DataFrame({"cached_tokens": [cached], "external_cached_tokens": [external]}, dtype=float)
    assert list(lookup_outcomes(rows)) == [expected]


@given(tokens=st.integers(1, 10**7))
def test_a_length_is_in_its_bucket(tokens: int) -> None:
    """A bucket reaches from a power of two to just below the next, and holds its lengths."""
    (label,) = length_buckets(pd.DataFrame({"prompt_tokens_planned": [tokens]}))
    low, high = (int(edge) for edge in label.split("-"))
    assert low <= tokens <= high
    assert (high + 1, low & (low - 1)) == (2 * low, 0)


def test_parts_add_up() -> None:
    """Parts are told where there are several, shortest first; their requests add up to the pass."""
    run = fake_run([FakePass("host", [1.0, 2.0, 3.0, None])])
    at = run.requests.schema.get_field_index("prompt_tokens_planned")
    mixed = dataclasses.replace(
        run, requests=run.requests.set_column(at, "prompt_tokens_planned", [[100, 5000, 90, 5000]])
    )
    parts = [f for f in arm_findings(mixed, 20) if "prompt_tokens" in f.by and f.name == "requests"]
    assert [(f.by["prompt_tokens"], f.estimate.value) for f in parts] == [("64-127", 2), ("4096-8191", 2)]
    assert not [f for f in arm_findings(run, 20) if "prompt_tokens" in f.by]
