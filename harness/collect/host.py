"""What the services cost on this machine: CPU and memory of each one's tree of processes, and CPU of each process."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import psutil


@dataclass(frozen=True, slots=True)
class HostValue:
    """One figure of a service; `labels` name the process it is of, if it is not of the whole service."""

    service: str
    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class HostReader:
    """Reads the process trees of named services (`name -> pid of its root`); one reader for one run of the services."""

    def __init__(self, services: Mapping[str, int]) -> None:
        self._services = dict(services)
        self._cpu_s: dict[psutil.Process, float] = {}
        self._read_ns: int | None = None
        self._names: dict[psutil.Process, str] = {}

    def read(self, now_ns: int) -> tuple[HostValue, ...]:
        """The services at `now_ns`: `rss_bytes`, and `cpu_percent` since the last read (100 is one core).

        A service of several processes has a `process_cpu_percent` for each of them, labelled with `process` and `pid`.
        A service that is gone has no values, and none has a CPU share in the first read. A process that came up between
        two reads counts from its start; memory shared by processes of a tree counts once for each of them.
        """
        elapsed_s = None if self._read_ns is None else (now_ns - self._read_ns) / 1e9
        before, self._cpu_s, self._read_ns = self._cpu_s, {}, now_ns
        children = _children()
        values: list[HostValue] = []
        for service, pid in self._services.items():
            spent_s: dict[psutil.Process, float] = {}
            rss_bytes = 0
            for process, cpu_s, rss in _measure(_tree(pid, children)):
                self._cpu_s[process] = cpu_s
                spent_s[process] = cpu_s - before.get(process, 0.0)
                rss_bytes += rss
            if spent_s:
                values.append(HostValue(service, "rss_bytes", float(rss_bytes)))
                if elapsed_s:
                    values.append(HostValue(service, "cpu_percent", 100 * sum(spent_s.values()) / elapsed_s))
                    values += self._processes(service, spent_s, elapsed_s)
        return tuple(values)

    def _processes(
        self, service: str, spent_s: Mapping[psutil.Process, float], elapsed_s: float
    ) -> Iterator[HostValue]:
        if len(spent_s) > 1:
            for process, seconds in spent_s.items():
                name = self._names.get(process) or _name(process)
                self._names[process] = name
                labels = {"process": name, "pid": str(process.pid)}
                yield HostValue(service, "process_cpu_percent", 100 * seconds / elapsed_s, labels)


def _children() -> dict[int, list[int]]:
    """Every parent's children, by one look at the process table: psutil by itself would take one for each tree."""
    children: dict[int, list[int]] = {}
    for process in psutil.process_iter(["ppid"]):
        children.setdefault(process.info["ppid"], []).append(process.pid)
    return children


def _tree(root: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting.extend(children.get(pid, []))


def _measure(pids: Iterator[int]) -> Iterator[tuple[psutil.Process, float, int]]:
    """Process, CPU seconds so far, resident bytes; one that is gone, or dead and not yet reaped, is passed over."""
    for pid in pids:
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                times = process.cpu_times()
                yield process, times.user + times.system, process.memory_info().rss
        except psutil.Error:
            continue


def _name(process: psutil.Process) -> str:
    """What a process calls itself; vLLM's name themselves after what they do."""
    try:
        return str(process.name())
    except psutil.Error:
        return ""
