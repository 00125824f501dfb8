"""What goes wrong in a run: a clear error, an exit code, everything measured kept, nothing left running."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from harness.store import open_run
from tests.live.conftest import CONFIG, Kvreplay, read_json, rows, until

pytestmark = pytest.mark.usefixtures("alone")


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


def test_a_valkey_that_dies_ends_its_arm_and_sigterm_ends_the_run(kvreplay: Kvreplay, tmp_path: Path) -> None:
    """Killed in mid-pass: the service is named, its arm's requests are all recorded, the next arm starts.

    SIGTERM while that one's vLLM starts: exit 130, and of a stack half up nothing is left either.
    """
    config = tmp_path / "no-link.yaml"  # without a multiple of B* there is no machine to probe: one engine less
    config.write_text(
        CONFIG.read_text().replace(", link: {bandwidth: 2 Bstar, latency: 1ms}", ", link: {bandwidth: 1GB/s}")
    )
    arguments = ("run", str(config), "--arm", "valkey-1", "--arm", "valkey-4", "--workload", "docs")
    process = kvreplay.start(*arguments, "--out", str(tmp_path / "results"))
    until(process, "valkey-1 · docs · first")
    os.kill(_service(process, "valkey-server"), signal.SIGKILL)
    until(process, "arm valkey-1 failed: valkey-0 died while it was in use")
    until(process, "starting vllm")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert kvreplay.survivors() == []
    folder = _folder(tmp_path / "results")
    meta = read_json(folder / "run.json")
    assert meta["status"] in {"partial", "failed"}
    assert meta["failures"][0]["where"].endswith("valkey-0.log")
    planned = sum(count for key, count in meta["planned"].items() if key.startswith("valkey-1/docs/"))
    assert sum(_counts(folder, arm="valkey-1", workload="docs").values()) == planned > 0


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
