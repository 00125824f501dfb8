"""What was predicted of an arm, against what its server then said: cached tokens, request by request."""

from pathlib import Path
from typing import Any

import pytest

from harness.store import open_run
from tests.live.conftest import CONFIG, Kvreplay, read_json, rows

pytestmark = pytest.mark.usefixtures("alone")


def _cached(table: Any, column: str) -> dict[tuple[str, str, int], int | None]:
    """A column of the measured requests, by arm, pass and request."""
    found = rows(table, workload="docs")
    return {
        (row["arm"], row["pass"], row["seq"]): row[column]
        for row in found
        if row["pass"] in {"first", "again", "reverse"}
    }


def test_cached_tokens_are_predicted_one_for_one(kvreplay: Kvreplay, tmp_path: Path) -> None:
    """Blocks of 64 and 31 of them: vLLM alone and with a Valkey, every request's tokens of each cache are as predicted.

    And no prediction was made after the fact.
    """
    text = CONFIG.read_text().replace("kv_cache_tokens: 2816 ", "kv_cache_tokens: 1984 ")
    text = text.replace("block_size: 128", "block_size: 64").replace("2 Bstar", "1GB/s")
    config = tmp_path / "blocks-of-64.yaml"
    config.write_text(text)
    arms = ("--arm", "recompute", "--arm", "valkey-1", "--workload", "docs")
    kvreplay("run", str(config), *arms, "--out", str(tmp_path / "results"))
    (folder,) = (tmp_path / "results" / "small").iterdir()
    run = open_run(folder)
    measured = _cached(run.requests, "cached_tokens")
    assert len(measured) == 2 * 3 * 8
    assert _cached(run.predictions, "cached_tokens") == measured
    for column in ("local_cached_tokens", "external_cached_tokens"):
        predicted = _cached(run.predictions, column)
        told = {key: tokens for key, tokens in _cached(run.requests, column).items() if tokens is not None}
        assert {key: predicted[key] for key in told} == told
        assert any(told.values())
    made = read_json(folder / "run.json")["predictions"]
    for arm in ("recompute", "valkey-1"):
        assert made[arm]["t_ns"] < min(row["sent_ns"] for row in rows(run.requests, arm=arm, workload="docs"))
