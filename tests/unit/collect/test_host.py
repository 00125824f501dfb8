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
    values = reader.read(time.perf_counter_ns())
    return {(one.service, one.name): one.value for one in values if not one.labels}


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


def test_each_process_of_a_service_counts_for_itself(pids: dict[str, int]) -> None:
    """The parts add up to the whole, and say which process they are of; a service of one process has no parts."""
    reader = HostReader(pids)
    reader.read(time.perf_counter_ns())
    time.sleep(0.2)
    values = reader.read(time.perf_counter_ns())
    parts = [one for one in values if one.name == "process_cpu_percent"]
    assert {one.service for one in parts} == {"busy"}
    assert str(pids["busy"]) in {one.labels["pid"] for one in parts}
    assert all(one.labels["process"] for one in parts)
    (whole,) = [one.value for one in values if (one.service, one.name) == ("busy", "cpu_percent")]
    assert sum(one.value for one in parts) == pytest.approx(whole)
