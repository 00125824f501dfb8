"""The workflows: what they use is pinned, and what they call is there."""

import re
from pathlib import Path

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


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_least_rights(path: Path) -> None:
    """A workflow may read the code, and nothing else."""
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
