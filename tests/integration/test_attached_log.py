"""`kvreplay run` with the log of an attached LMCache: followed while the run goes on, joined when it ends."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from harness.store import open_run
from tests.fakes.served import null_server

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
CONFIG = """\
experiment: attached
engine: {{backend: attach, model: null-model, block_size: 16}}
arms:
  - name: here
    attach: {{url: "{url}", lmcache_log: "{log}"}}
workloads:
  - name: docs
    passes: {{documents: 20, document_tokens: 64, question_tokens: 4, order: [first, again]}}
"""
BANNER = "| LMCache v0.5.4 (g05a013b2)\n"


@pytest.fixture
def url() -> Iterator[str]:
    """A null server whose first token takes 20 ms."""
    with null_server(0.02) as address:
        yield address


def _line(request_id: str) -> str:
    stamp = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    hits = "Prefetch request completed (L1+L2): 1/1 retained keys (0 L1, 1 L2) in 0.1 ms"
    ids = f"(external_request_id=cmpl-{request_id}-0-1a2b3c4d, prefetch_request_id=3)"
    return f"[{stamp}] LMCache INFO: {hits} {ids} (storage_manager.py:726:lmcache.v1.distributed.storage_manager)\n"


def _ours(run_id: str) -> list[str]:
    return [f"kvr-{run_id}a0s{segment}-{seq}" for segment in range(8) for seq in range(40)]


def _theirs(_: str) -> list[str]:
    return [f"kvr-beef42a0s1-{seq}" for seq in range(20)]


def _nobodys(_: str) -> list[str]:
    return []


def _run(tmp_path: Path, url: str, ids: Callable[[str], list[str]], noise: str = "") -> Path:
    """A run whose LMCache names `ids` again and again, as long as it goes on, into a log that was there before it."""
    log, config = tmp_path / "lmcache.log", tmp_path / "attached.yaml"
    log.write_text(BANNER + _line("kvr-before-1"))
    config.write_text(CONFIG.format(url=url, log=log))
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.cli", "run", str(config), "--out", str(tmp_path / "results")],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while process.poll() is None:
            time.sleep(0.05)
            for folder in (tmp_path / "results").glob("attached/*"):
                with log.open("a") as file:
                    file.writelines([noise, *(_line(one) for one in ids(folder.name.rpartition("-")[2]))])
    finally:
        process.kill()
        _, err = process.communicate()
    assert process.returncode == 0, err
    (folder,) = (tmp_path / "results" / "attached").iterdir()
    return folder


def test_what_an_attached_log_says_while_we_run_is_joined(tmp_path: Path, url: str) -> None:
    """Its lines about our requests, with the version of its banner; nothing of what it said before."""
    run = open_run(_run(tmp_path, url, _ours))
    loads = run.loads.to_pylist()
    assert {row["version"] for row in loads} == {"0.5.4"}
    assert "kvr-before-1" not in {row["request_id"] for row in loads}
    measured = [row for row in run.requests.to_pylist() if row["pass"] in {"first", "again"}]
    assert {row["lookup"] for row in measured} == {"l2"}
    assert {row["loaded_l2_keys"] for row in measured} == {1}
    kinds = {caveat["kind"] for caveat in run.meta["caveats"]}
    assert not kinds & {"lmcache_log", "log_of_another_run", "cut_lines", "two_writers"}


def test_the_log_of_another_run_explains_nothing(tmp_path: Path, url: str) -> None:
    """Lines that name other requests only: a caveat, and no miss is made of it."""
    run = open_run(_run(tmp_path, url, _theirs))
    assert {row["lookup"] for row in run.requests.to_pylist()} == {"no_log"}
    assert "log_of_another_run" in {caveat["kind"] for caveat in run.meta["caveats"]}


def test_a_log_that_is_not_lmcaches_explains_nothing(tmp_path: Path, url: str) -> None:
    """Somebody else's file: no miss is made of it, and the caveat shows what came."""
    run = open_run(_run(tmp_path, url, _nobodys, noise="GET /v1/completions 200\n"))
    assert {row["lookup"] for row in run.requests.to_pylist()} == {"no_log"}
    (text,) = [caveat["text"] for caveat in run.meta["caveats"] if caveat["kind"] == "lmcache_log"]
    assert "GET /v1/completions 200" in text
