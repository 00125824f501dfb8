"""Two vLLM engines behind one remote cache: a prompt stored by one is a hit in the other."""

from pathlib import Path

import pytest

from harness.store import open_run
from tests.live.conftest import ROOT, Kvreplay, rows, total

pytestmark = pytest.mark.usefixtures("alone")

DOCUMENTS, CHUNKS_TOKENS = 11, 1280


def test_what_one_engine_stored_is_a_hit_in_the_other(kvreplay: Kvreplay, tmp_path: Path) -> None:
    """Engines are asked in turn and documents are odd in number, so each is asked of both: every chunk is a hit.

    Both engines are counted, sampled and logged.
    """
    config = ROOT / "configs" / "two-engines.yaml"
    kvreplay("run", str(config), "--arm", "valkey-1", "--out", str(tmp_path))
    (folder,) = (tmp_path / "two-engines").iterdir()
    run = open_run(folder)
    again = rows(run.requests, **{"pass": "again"})
    assert [row["external_cached_tokens"] for row in again] == [CHUNKS_TOKENS] * DOCUMENTS
    (counted,) = rows(run.passes, **{"pass": "again"})
    assert counted["external_prefix_cache_hits"] == DOCUMENTS * CHUNKS_TOKENS
    assert counted["prefix_cache_hits"] == 0
    sources = ("local_compute", "local_cache_hit", "external_kv_transfer")
    assert sum(counted[f"prompt_tokens_{source}"] for source in sources) == total(
        [row["prompt_tokens"] for row in again]
    )
    sampled = {row["instance"] for row in run.samples.to_pylist()}
    assert {"vllm", "vllm-1", "lmcache", "lmcache-1"} <= sampled
    assert {row["instance"] for row in rows(run.loads, kind="prefetch")} == {"lmcache", "lmcache-1"}
