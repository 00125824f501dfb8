"""The live suite's machine check, and what a stack leaves behind."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.experiment.doctor import missing

if TYPE_CHECKING:
    from tests.live.served import Served

ROOT = Path(__file__).parents[2]
CONFIG = Path(__file__).parent / "small.yaml"
SHM = Path("/dev/shm")  # noqa: S108 - where the kernel shows the segments
SLOW_START_S = 150.0
"""A stack's start takes 25 to 75 s on a quiet machine of two cores. Where it takes longer than this, the modules that
start five more engines skip: they would take the better part of an hour. KVREPLAY_ALL_LIVE=1 runs them in any case."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder is live; without what the CPU engine needs it skips, and says why."""
    here = Path(__file__).parent
    lacking = [f"{check.name}: {check.found}" for check in missing()]
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.live)
            item.add_marker(pytest.mark.timeout(2400))
            if lacking:
                item.add_marker(pytest.mark.skip(reason=f"no live CPU stack here: {'; '.join(lacking)}"))
    # What shares a stack comes first: how long that took to start decides whether the others run.
    items.sort(key=lambda item: here in item.path.parents and "alone" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """XDG_CACHE_HOME of every process of this session: it marks them as ours, down to vLLM's workers."""
    return tmp_path_factory.mktemp("cache")


class Kvreplay:
    """The command line, run as a user runs it."""

    def __init__(self, cache_home: Path) -> None:
        self.cache_home = cache_home
        self.start_s: float | None = None

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """A started command; its output can be read line by line."""
        return subprocess.Popen(
            [sys.executable, "-m", "harness.cli", *arguments],
            cwd=ROOT,
            env={**os.environ, "XDG_CACHE_HOME": str(self.cache_home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, expect: int = 0) -> str:
        """The command's stdout; fails with its stderr unless it exits with `expect`."""
        process = self.start(*arguments)
        out, err = process.communicate()
        assert process.returncode == expect, f"exit {process.returncode}\n{out}\n{err}"
        return out

    def survivors(self) -> list[str]:
        """Command lines of processes that carry this session's mark and still run."""
        mark = f"XDG_CACHE_HOME={self.cache_home}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@pytest.fixture(scope="session")
def kvreplay(cache_home: Path) -> Iterator[Kvreplay]:
    """The command line; at the end of the session nothing of it may be left."""
    before = segments()
    command = Kvreplay(cache_home)
    yield command
    assert command.survivors() == []
    assert segments() - before == set()


@pytest.fixture(scope="session")
def stacks(kvreplay: Kvreplay) -> Iterator[contextlib.ExitStack]:
    """Stacks that tests of several modules share: down when this closes."""
    assert kvreplay.survivors() == []
    with contextlib.ExitStack() as held:
        yield held


@pytest.fixture(scope="session")
def four(kvreplay: Kvreplay, stacks: contextlib.ExitStack) -> "Served":
    """Four Valkeys behind an L1 that keeps what it stores: one engine start for all modules that ask it."""
    from tests.live.served import up  # noqa: PLC0415 - that module imports this one

    begin_s = time.monotonic()
    served = stacks.enter_context(up(kvreplay, "valkey-4"))
    kvreplay.start_s = time.monotonic() - begin_s
    return served


@pytest.fixture(scope="module")
def alone(kvreplay: Kvreplay, stacks: contextlib.ExitStack) -> None:
    """No shared stack is up: for modules that start engines of their own. They come after those that share one."""
    stacks.close()
    slow = kvreplay.start_s is not None and kvreplay.start_s > SLOW_START_S
    if slow and not os.environ.get("KVREPLAY_ALL_LIVE"):
        pytest.skip(f"one start took {kvreplay.start_s:.0f} s here: KVREPLAY_ALL_LIVE=1 runs what starts more")


def until(process: "subprocess.Popen[str]", words: str) -> list[str]:
    """The lines of the process's stderr up to one that has `words`."""
    seen: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        seen.append(line)
        if words in line:
            return seen
    raise AssertionError(f"it never said {words!r}:\n{''.join(seen)}")


def segments() -> set[str]:
    """Names of the shared-memory segments that exist now."""
    return {path.name for path in SHM.iterdir()}


def rows(table: Any, **where: object) -> list[dict[str, Any]]:
    """The rows of a pyarrow table in which every named column has the value given."""
    return [row for row in table.to_pylist() if all(row[name] == value for name, value in where.items())]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON document."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def total(column: Sequence[int | None]) -> int:
    """The sum of a column in which nothing is missing."""
    assert all(value is not None for value in column)
    return sum(value for value in column if value is not None)
