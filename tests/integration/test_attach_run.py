"""`kvreplay run` against servers that already run: here the null server, in a process of its own."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.stack import free_ports
from harness.store import open_run
from tests.fakes.served import cached_engine, null_server

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
CONFIG = """\
experiment: attached
engine: {{backend: attach, model: null-model, block_size: 16}}
on_unproved: caveat # a null server counts nothing
arms:
  - name: here
    attach: {{url: "{url}"}}
workloads:
  - name: docs
    passes: {{documents: {documents}, document_tokens: 64, question_tokens: 4, order: [first, again]}}
"""


@pytest.fixture
def url() -> Iterator[str]:
    """A null server whose first token takes 20 ms."""
    with null_server(0.02) as address:
        yield address


def _start(tmp_path: Path, url: str, documents: int) -> "subprocess.Popen[str]":
    config = tmp_path / "attached.yaml"
    config.write_text(CONFIG.format(url=url, documents=documents))
    return _run(tmp_path, config)


def _run(tmp_path: Path, config: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "harness.cli", "run", str(config), "--out", str(tmp_path / "results")],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _rows(tmp_path: Path, pass_name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    (folder,) = (tmp_path / "results" / "attached").iterdir()
    run = open_run(folder, allow_incomplete=True)
    return [row for row in run.requests.to_pylist() if row["pass"] == pass_name], dict(run.meta)


def test_an_attached_server_is_measured_and_not_touched(tmp_path: Path, url: str) -> None:
    """Every request is a row; the server needs nothing but completions, /health and /metrics."""
    process = _start(tmp_path, url, 5)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "here" in out
    for name in ("first", "again"):
        rows, meta = _rows(tmp_path, name)
        assert [row["outcome"] for row in rows] == ["ok"] * 5
        assert [row["output_text"] for row in rows] == [rows[0]["output_text"]] * 5
        assert meta["status"] == "complete"
    (proof,) = meta["state_proofs"]
    assert (proof["kind"], proof["proved"]) == ("cold", True)
    assert "every run with this seed" in proof["detail"]


def test_ctrl_c_in_mid_pass_loses_nothing(tmp_path: Path, url: str) -> None:
    """Exit 130; one row per planned request, answered, cancelled or not sent; the folder is named and can be opened."""
    process = _start(tmp_path, url, 2000)
    assert process.stderr is not None
    for line in process.stderr:
        if "here · docs · first: 2000 requests" in line:
            break
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    rows, meta = _rows(tmp_path, "first")
    assert len(rows) == meta["planned"]["here/docs/first/0"] == 2000
    outcomes = [row["outcome"] for row in sorted(rows, key=lambda row: row["seq"])]
    assert re.fullmatch("(ok,)+(cancelled,)?(not_sent,)+", "".join(f"{outcome}," for outcome in outcomes))
    assert meta["status"] in {"partial", "failed"}
    assert "interrupted: what was measured until then is in" in err


def test_no_server_is_an_error_that_says_where(tmp_path: Path) -> None:
    """Nothing listens: the arm and its URL are named before anything is started, exit 2."""
    (port,) = free_ports(1)
    process = _start(tmp_path, f"http://127.0.0.1:{port}", 5)
    _, err = process.communicate()
    assert process.returncode == 2
    assert f"nobody answers at http://127.0.0.1:{port}/v1/models" in err
    assert "arm here: attach.url" in err
    assert not (tmp_path / "results").exists()


def test_up_holds_a_stack_until_down(tmp_path: Path, url: str) -> None:
    """`up` returns with the URLs while a holder stays; a second `up` is refused; after `down` the holder is gone."""
    config = tmp_path / "attached.yaml"
    config.write_text(CONFIG.format(url=url, documents=1))

    def kvreplay(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "harness.cli", *arguments],
            cwd=ROOT,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )

    up = kvreplay("up", str(config), "--arm", "here")
    assert up.returncode == 0, up.stderr
    state = json.loads(up.stdout)
    assert (state["status"], state["url"]) == ("up", url)
    assert _runs(state["pid"])
    again = kvreplay("up", str(config), "--arm", "here")
    assert again.returncode == 2
    assert "is up already" in again.stderr
    assert "arm here is down" in kvreplay("down").stdout
    assert not _runs(state["pid"])
    assert "nothing is up" in kvreplay("down").stdout


def _runs(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody has waited for does not (init may never wait)."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_several_servers_with_a_key_and_a_chat(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two servers share the load, the key comes from the environment and is in no file, a gap in counters is told."""
    monkeypatch.setenv("KVREPLAY_TEST_KEY", "very-secret")
    text = CONFIG.format(url=url, documents=4).replace(f'"{url}"', f'"{url}", more_urls: ["{url}"]')
    config = tmp_path / "attached.yaml"
    config.write_text(
        text + "client: {endpoint: chat, api_key_env: KVREPLAY_TEST_KEY, retries: 1, total_deadline: 90s}\n"
    )
    process = _run(tmp_path, config)
    _, err = process.communicate()
    assert process.returncode == 0, err
    rows, meta = _rows(tmp_path, "first")
    assert [(row["outcome"], row["attempts"]) for row in rows] == [("ok", 1)] * 4
    assert meta["spec"]["client"]["api_key_env"] == "KVREPLAY_TEST_KEY"
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"very-secret" in file.read_bytes()]


def test_a_key_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path, url: str) -> None:
    """Exit 2, and the variable is named."""
    config = tmp_path / "attached.yaml"
    config.write_text(CONFIG.format(url=url, documents=1) + "client: {api_key_env: KVREPLAY_NO_SUCH_KEY}\n")
    process = _run(tmp_path, config)
    _, err = process.communicate()
    assert process.returncode == 2
    assert "KVREPLAY_NO_SUCH_KEY is not set" in err
    assert not (tmp_path / "results").exists()


def test_an_arm_is_predicted_before_it_is_measured(tmp_path: Path, url: str) -> None:
    """Its prediction is in the folder, older than any measured request, and the summary says how right it was."""
    config = tmp_path / "attached.yaml"
    config.write_text(
        CONFIG.format(url=url, documents=5).replace("block_size: 16", "block_size: 16, kv_cache_tokens: 4096")
    )
    process = _run(tmp_path, config)
    _, err = process.communicate()
    assert process.returncode == 0, err
    rows, meta = _rows(tmp_path, "first")
    (folder,) = (tmp_path / "results" / "attached").iterdir()
    predicted = open_run(folder).predictions
    assert predicted is not None
    assert {(one["source"], one["arm"]) for one in predicted.to_pylist()} == {("sim", "here")}
    assert [one["pass"] for one in predicted.to_pylist()] == ["first"] * 5 + ["again"] * 5
    assert meta["predictions"]["here"]["t_ns"] < min(row["sent_ns"] for row in rows)
    findings = json.loads((folder / "summary.json").read_text())["findings"]
    ratios = {one["by"]["pass"]: one["value"] for one in findings if one["name"] == "predicted_ttft_p50_ratio"}
    assert 0.2 < ratios["first"] < 5


def test_an_arm_that_cannot_be_simulated_says_so(tmp_path: Path, url: str) -> None:
    """Without a KV cache size nothing is predicted: a caveat, no file, and the run is as complete."""
    process = _start(tmp_path, url, 2)
    _, err = process.communicate()
    assert process.returncode == 0, err
    _, meta = _rows(tmp_path, "first")
    (folder,) = (tmp_path / "results" / "attached").iterdir()
    assert "not_predicted" in [caveat["kind"] for caveat in meta["caveats"]]
    assert not (folder / "predictions").exists()


def test_a_command_prints_the_log_of_somebody_elses_lmcache(tmp_path: Path, url: str) -> None:
    """What it prints becomes the arm's log and its loads; it is ended with the run; one that ends by itself is told."""
    line = (
        "[2026-11-29 20:15:05,201] LMCache INFO: Prefetch request completed (L1+L2): 5/5 retained keys (0 L1, 5 L2) in "
        "9.1 ms (external_request_id=cmpl-theirs-0-1a2b3c4d, prefetch_request_id=3) (storage_manager.py:726:x)"
    )
    print_line = f"import sys, time; sys.stdout.write('{line}\\n'); sys.stdout.flush(); time.sleep(float(sys.argv[1]))"
    for seconds, told in ((600, False), (0, True)):
        command = json.dumps(shlex.join([sys.executable, "-c", print_line, str(seconds)]))
        config = tmp_path / "attached.yaml"
        text = CONFIG.format(url=url, documents=5)
        attach = f'attach: {{url: "{url}", lmcache_log_command: {command}}}\n    lmcache: {{l1: 1GiB}}'
        config.write_text(text.replace(f'attach: {{url: "{url}"}}', attach))
        out = tmp_path / str(seconds)
        process = _run(out, config)
        assert process.wait() == 0, process.communicate()
        process.communicate()
        (folder,) = (out / "results" / "attached").iterdir()
        run = open_run(folder)
        assert [row["l2_keys"] for row in run.loads.to_pylist()] == [5]
        assert any("ended early" in caveat["text"] for caveat in run.meta["caveats"]) == told
        assert not [one for one in psutil.process_iter(["cmdline"]) if print_line in (one.info["cmdline"] or [])]


def test_a_state_that_is_not_proved_fails_and_resets_are_done_by_leave(tmp_path: Path) -> None:
    """The second run of a seed finds its prompts cached: an error that says what to do.

    With a caveat allowed it runs; with leave to empty the engine's cache it is cold again, and so proved.
    """
    config = tmp_path / "attached.yaml"
    with cached_engine(forgets=1) as url:
        text = CONFIG.format(url=url, documents=3).replace(
            "on_unproved: caveat # a null server counts nothing\n", "seed: 0\n"
        )
        text = text.replace("document_tokens: 64", "document_tokens: 300")
        runs = {
            "cold": (text, 0, True),
            "again": (text, 1, False),
            "allowed": (f"on_unproved: caveat\n{text}", 0, False),
            "emptied": (text.replace(f'url: "{url}"', f'url: "{url}", resets: [engine]'), 0, True),
        }
        for name, (written, status, proved) in runs.items():
            config.write_text(written)
            process = _run(tmp_path / name, config)
            _, err = process.communicate()
            assert process.returncode == status, err
            assert ("not shown to be cold" in err and "take another seed" in err) == (status == 1)
            _, meta = _rows(tmp_path / name, "first")
            assert [proof["proved"] for proof in meta["state_proofs"]] == [proved]
