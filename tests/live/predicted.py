"""A run's predictions beside its requests: cached tokens, one for one."""

from typing import Any

from harness.records import Run
from tests.live.conftest import rows


def cached(table: Any, column: str) -> dict[tuple[str, str, int], int | None]:
    """A column of the measured requests of the documents, by arm, pass and request."""
    found = rows(table, workload="docs")
    return {
        (row["arm"], row["pass"], row["seq"]): row[column]
        for row in found
        if row["pass"] in {"first", "again", "reverse"}
    }


def predicted_one_for_one(run: Run) -> None:
    """Fails unless each request of the documents hit as many tokens of each cache as was predicted of it."""
    measured = cached(run.requests, "cached_tokens")
    assert cached(run.predictions, "cached_tokens") == measured
    for column in ("local_cached_tokens", "external_cached_tokens"):
        predicted = cached(run.predictions, column)
        told = {key: tokens for key, tokens in cached(run.requests, column).items() if tokens is not None}
        assert {key: predicted[key] for key in told} == told
        assert any(told.values())
