"""What goes wrong in a run: a clear error, an exit code, everything measured kept, nothing left running."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil

from harness.store import open_run
from tests.live.conftest import CONFIG, Kvreplay, read_json, rows


def _until(process: "subprocess.Popen[str]", words: str) -> list[str]:
    """The lines of the process's stderr up to one that has `words`."""
    seen: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        seen.append(line)
        if words in line:
            return seen
    raise AssertionError(f"it never said {words!r}:\n{''.join(seen)}")


def _service(process: "subprocess.Popen[str]", name: str) -> int:
    """The pid of a service below a run."""
    (found,) = [child.pid for child in psutil.Process(process.pid).children() if name in " ".join(child.cmdline())]
    return found


def _folder(results: Path) -> Path:
    (path,) = (results / "small").iterdir()
    return path


def _counts(folder: Path, **where: object) -> dict[str, int]:
    outcomes: dict[str, int] = {}
    for row in rows(open_run(folder, allow_incomplete=True).requests, **where):
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + 1
    return outcomes


def test_an_interrupt_in_mid_pass_loses_nothing(kvreplay: Kvreplay, tmp_path: Path) -> None:
    """Ctrl-C while requests are in flight: exit 130, one row per planned request, nothing left running."""
    process = kvreplay.start("run", str(CONFIG), "--arm", "recompute", "--workload", "docs", "--out", str(tmp_path))
    _until(process, "recompute · docs · first")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert kvreplay.survivors() == []
    folder = _folder(tmp_path)
    meta: dict[str, Any] = read_json(folder / "run.json")
    assert meta["status"] in {"partial", "failed"}
    planned = sum(count for key, count in meta["planned"].items() if "/docs/" in key)
    assert sum(_counts(folder, workload="docs").values()) == planned
    assert str(folder) in err


def test_a_valkey_that_dies_ends_its_arm_with_the_reason(kvreplay: Kvreplay, tmp_path: Path) -> None:
    """Exit 1, the service named, its arm's requests all recorded, the status partial or failed, nothing left."""
    process = kvreplay.start("run", str(CONFIG), "--arm", "valkey-1", "--workload", "docs", "--out", str(tmp_path))
    _until(process, "arm valkey-1")
    _until(process, "valkey-1 · docs · first")
    os.kill(_service(process, "valkey-server"), signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == 1, err
    assert "valkey-0 died while it was in use" in err
    assert kvreplay.survivors() == []
    folder = _folder(tmp_path)
    meta = read_json(folder / "run.json")
    assert meta["status"] in {"partial", "failed"}
    assert meta["failures"][0]["where"].endswith("valkey-0.log")
    planned = sum(count for key, count in meta["planned"].items() if key.startswith("valkey-1/docs/"))
    assert sum(_counts(folder, arm="valkey-1", workload="docs").values()) == planned


def test_vllm_that_dies_at_start_is_an_error_with_its_last_words(kvreplay: Kvreplay, tmp_path: Path) -> None:
    """An option vLLM does not know: exit 1, vLLM's own line, what to do, nothing left."""
    config = tmp_path / "bad.yaml"
    config.write_text(CONFIG.read_text().replace("[--enforce-eager]", "[--no-such-option]"))
    results = tmp_path / "results"
    process = kvreplay.start("run", str(config), "--arm", "recompute", "--workload", "docs", "--out", str(results))
    _, err = process.communicate()
    assert process.returncode == 1, err
    assert "vllm ended with status 2 while starting" in err
    assert "unrecognized arguments: --no-such-option" in err
    assert "engine.extra_args" in err
    assert kvreplay.survivors() == []
    assert read_json(_folder(results) / "run.json")["status"] == "failed"


def test_sigterm_while_vllm_starts_stops_everything(kvreplay: Kvreplay, tmp_path: Path) -> None:
    """A stack half up is a stack to stop: exit 130 and no process left."""
    process = kvreplay.start("run", str(CONFIG), "--arm", "valkey-4", "--workload", "docs", "--out", str(tmp_path))
    _until(process, "starting vllm")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert kvreplay.survivors() == []
