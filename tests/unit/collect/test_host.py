"""harness.collect.host: CPU and memory of process trees."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from harness.collect.host import HostReader

SPIN = "print(flush=True)\nx = 0\nwhile True: x += 1"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}])"
IDLE = "import sys; print(flush=True); sys.stdin.read()"


@pytest.fixture
def pids() -> Iterator[dict[str, int]]:
    """A service whose child is busy, and one that only waits; their process groups are killed with the test."""
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, code in (("busy", PARENT), ("idle", IDLE)):
            started[name] = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        for process in started.values():
            assert process.stdout is not None
            process.stdout.readline()
        yield {name: process.pid for name, process in started.items()}
    finally:
        for process in started.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _values(reader: HostReader) -> dict[tuple[str, str], float]:
    return {(service, name): value for service, name, value in reader.read(time.perf_counter_ns())}


def test_a_busy_child_counts_for_its_service(pids: dict[str, int]) -> None:
    """CPU is that of the whole tree, and has no value before there is an interval to measure it over."""
    reader = HostReader(pids)
    first = _values(reader)
    assert set(first) == {("busy", "rss_bytes"), ("idle", "rss_bytes")}
    busy = idle = 0.0
    while busy < 0.05:  # however slow the machine is, the busy child gets its turn
        time.sleep(0.1)
        values = _values(reader)
        busy, idle = values["busy", "cpu_percent"], values["idle", "cpu_percent"]
    assert busy > idle
    assert values["busy", "rss_bytes"] > values["idle", "rss_bytes"]


def test_a_service_that_is_gone_has_no_values(pids: dict[str, int]) -> None:
    """A dead service is a gap, not an idle one, even before its parent has collected it."""
    reader = HostReader(pids)
    os.killpg(pids["idle"], signal.SIGKILL)
    psutil.Process(pids["idle"]).status()
    while psutil.Process(pids["idle"]).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert {service for service, _ in _values(reader)} == {"busy"}
