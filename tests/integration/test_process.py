"""Promises of harness.stack.process, kept by real processes."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from harness.collect.valkey_info import connect
from harness.config import Valkey
from harness.errors import StackError
from harness.stack import free_ports, valkey
from harness.stack.process import Command, Process, session_members

pytestmark = pytest.mark.integration

_FAMILY = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('born', flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child])
time.sleep(600)
"""
_PARENT = """
import asyncio, sys
from pathlib import Path
from harness.stack.process import Command, Process

async def main():
    process = await Process.start(Command("sleeper", ("sleep", "600")), Path(sys.argv[1]))
    print(process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""
_SEGMENT = """
import sys, time
from multiprocessing import resource_tracker, shared_memory
segment = shared_memory.SharedMemory(sys.argv[1], create=True, size=4096)
resource_tracker.unregister(segment._name, "shared_memory")
print("born", flush=True)
time.sleep(600)
"""


def _says(log: Path, words: str) -> Callable[[], Awaitable[bool]]:
    async def probe() -> bool:
        return words in log.read_text()  # noqa: ASYNC240 - a test may block

    return probe


async def _never() -> bool:
    return False


def test_stopping_ends_children_that_refuse_to_go(tmp_path: Path) -> None:
    """A service and its child both ignore SIGTERM: after stop() neither is there."""

    async def main() -> int:
        log = tmp_path / "family.log"
        process = await Process.start(Command("family", (sys.executable, "-c", _FAMILY)), log)
        await process.ready(_says(log, "born"), 60)
        assert len(session_members(process.pid)) == 2
        await process.stop(grace_s=0.2)
        return process.pid

    assert session_members(asyncio.run(main())) == []


def test_a_killed_service_leaves_no_child_and_no_segment(tmp_path: Path) -> None:
    """SIGKILL gives it no chance to clean up: stop() removes the shared memory it had mapped."""
    name = f"kvr-test-{os.getpid()}"

    async def main() -> None:
        log = tmp_path / "segment.log"
        process = await Process.start(Command("segment", (sys.executable, "-c", _SEGMENT, name)), log)
        await process.ready(_says(log, "born"), 60)
        assert (Path("/dev/shm") / name).exists()  # noqa: S108
        os.kill(process.pid, 9)
        assert await process.exited() == -9
        await process.stop()

    asyncio.run(main())
    with pytest.raises(FileNotFoundError):
        shared_memory.SharedMemory(name)


def test_a_service_ends_with_a_kvreplay_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL gives us no chance to stop anything: the kernel tells the services."""
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path / "child.log")], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert session_members(child) == [child]
    parent.kill()
    parent.communicate()
    for _ in range(500):
        if not session_members(child):
            return
        time.sleep(0.02)
    raise AssertionError("it still runs")


def test_one_that_is_never_ready_is_given_up_with_its_last_words(tmp_path: Path) -> None:
    """A hang at start ends at the deadline: the error has the log's last lines and its path."""

    async def main() -> None:
        program = "import time; print('waiting for godot', flush=True); time.sleep(600)"
        process = await Process.start(Command("hanging", (sys.executable, "-c", program)), tmp_path / "hanging.log")
        try:
            await process.ready(_says(tmp_path / "hanging.log", "godot"), 60)
            await process.ready(_never, 0.3)
        finally:
            await process.stop()

    with pytest.raises(StackError, match="hanging was not ready after 0 s") as caught:
        asyncio.run(main())
    assert "waiting for godot" in caught.value.detail
    assert caught.value.where == str(tmp_path / "hanging.log")


def test_a_port_in_use_is_named_as_the_reason(tmp_path: Path) -> None:
    """A second Valkey on the first one's port dies at once; the remedy says why."""

    async def main() -> None:
        (port,) = free_ports(1)
        first = await Process.start(valkey.command(Valkey(instances=2), 0, port, 0, tmp_path), tmp_path / "first.log")
        try:
            await first.ready(lambda: valkey.ready(port), 15)
            second = await Process.start(
                valkey.command(Valkey(instances=2), 1, port, 0, tmp_path), tmp_path / "second.log"
            )
            try:
                await second.ready(_never, 15)
            finally:
                await second.stop()
        finally:
            await first.stop()

    with pytest.raises(StackError, match="valkey-1 ended with status 1 while starting") as caught:
        asyncio.run(main())
    assert "another program has this port" in caught.value.remedy


def test_a_missing_program_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Not a traceback: which program, and who can say how to install it."""

    async def main() -> None:
        await Process.start(Command("ghost", ("/nowhere/ghost",)), tmp_path / "ghost.log")

    with pytest.raises(StackError, match="ghost cannot be started: No such file") as caught:
        asyncio.run(main())
    assert caught.value.where == "/nowhere/ghost"


def test_the_log_holds_both_streams_whole(tmp_path: Path) -> None:
    """What a service says on stdout and stderr is kept, in order."""

    async def main() -> None:
        program = (
            "import sys\nfor i in range(2000): print(i); print(-i, file=sys.stderr, flush=True); sys.stdout.flush()"
        )
        process = await Process.start(Command("talker", (sys.executable, "-c", program)), tmp_path / "talker.log")
        assert await process.exited() == 0
        await process.stop()

    asyncio.run(main())
    lines = (tmp_path / "talker.log").read_text().split()
    assert lines == [text for i in range(2000) for text in (str(i), str(-i))]


def test_valkey_takes_every_setting(tmp_path: Path) -> None:
    """Memory, eviction, threads and cores of the config are those the running instance has."""
    wanted = {"io-threads": "2", "maxmemory": str(2**26), "maxmemory-policy": "allkeys-lru", "server-cpulist": "0"}
    config = Valkey.model_validate(
        {"instances": 1, "io_threads": 2, "maxmemory": "64MiB", "eviction": "allkeys-lru", "cpus": ["0"]}
    )

    async def main() -> dict[str, str]:
        (port,) = free_ports(1)
        process = await Process.start(valkey.command(config, 0, port, 0, tmp_path), tmp_path / "valkey.log")
        try:
            await process.ready(lambda: valkey.ready(port), 15)
            async with connect(f"valkey://127.0.0.1:{port}") as client:
                answers = [await client.config_get(name) for name in wanted]
            return {name: value for answer in answers for name, value in answer.items()}
        finally:
            await process.stop()

    assert asyncio.run(main()) == wanted


def test_servers_do_not_share_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes vLLM servers count together is not handed on; the rest of the environment is."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setenv("KVR_OTHER", "yes")

    async def environment() -> str:
        process = await Process.start(Command("env", ("/usr/bin/env",)), tmp_path / "env.log")
        await process.exited()
        await process.stop()
        return (tmp_path / "env.log").read_text()

    told = asyncio.run(environment())
    assert "KVR_OTHER=yes" in told
    assert "PROMETHEUS_MULTIPROC_DIR" not in told
