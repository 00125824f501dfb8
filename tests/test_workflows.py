"""The workflows: what they use is pinned, and what they call is there."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli.main import app

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    """Whoever moves a tag moves nothing here; the version stands beside the commit for people."""
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_is_called_is_there(path: Path) -> None:
    """Every verb of kvreplay, every make target and every config that a workflow names exists."""
    text = path.read_text()
    verbs = {command.callback.__name__ for command in app.registered_commands if command.callback}
    assert set(re.findall(r"bin/kvreplay (\w+)", text)) <= verbs
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    )
    for config in set(re.findall(r"configs/[\w-]+\.yaml", text)):
        assert (ROOT / config).exists(), config


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="no actionlint: the smoke workflow runs it")
def test_actionlint_finds_nothing() -> None:
    """Syntax, expressions, names of steps and outputs, labels, and the shell of every step."""
    ended = subprocess.run(["actionlint", *map(str, WORKFLOWS)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def steps(name: str) -> list[dict[str, Any]]:
    """The steps of every job of a workflow."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize(
    ("code", "folder", "ends", "notes"),
    [(0, True, 0, ""), (3, True, 3, ""), (4, True, 0, "::warning"), (1, True, 1, ""), (2, False, 2, "")],
)
def test_the_nightly_step(tmp_path: Path, code: int, folder: bool, ends: int, notes: str) -> None:
    """What `kvreplay nightly` says becomes the job's: its code (4 is a warning), its folder, its pages as summary.

    A night that ended before it had a folder (2) shows no other night's.
    """
    (script,) = [step["run"] for step in steps("nightly.yml") if step.get("id") == "gate"]
    run = tmp_path / "home" / "kvreplay-results" / "night" / "20261130T020000Z-aaaaaa"
    run.mkdir(parents=True)
    for name in ("run.json", "report.md", "gate.md"):
        (run / name).write_text(f"the {name}\n")
    command = tmp_path / ".venv" / "bin" / "kvreplay"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\necho "$@"\n{f"echo {run}" if folder else ""}\nexit {code}\n')
    command.chmod(0o755)
    files = {"GITHUB_OUTPUT": tmp_path / "output", "GITHUB_STEP_SUMMARY": tmp_path / "summary", "RUNNER_TEMP": tmp_path}
    env = {**os.environ, **{name: str(path) for name, path in files.items()}, "HOME": str(tmp_path / "home")}
    env |= {"CONFIG": "configs/nightly.yaml", "MAX_REGRESSION": "5%"}
    ended = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert ended.returncode == ends
    assert notes in ended.stdout
    assert f"nightly configs/nightly.yaml --out {tmp_path}/home/kvreplay-results --max-regression 5%" in ended.stdout
    assert f"code={code}\nrun={run if folder else ''}\n" in (tmp_path / "output").read_text()
    summary = tmp_path / "summary"
    assert (summary.read_text() if summary.exists() else "") == ("the gate.md\nthe report.md\n" if folder else "")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_least_rights(path: Path) -> None:
    """A workflow may read the code, and nothing else."""
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
