"""Real processes under test: started in a session of their own, proved ready, stopped with everything they started."""

import asyncio
import contextlib
import ctypes
import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import StackError
from harness.stack.diagnose import last_lines, remedy_for

_SHM = "/dev/shm/"  # noqa: S108 - where the kernel shows the segments, not a place we write to
_POLL_S = 0.1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1  # prctl(2)
_SLOWEST_POLL_S = 2.0  # what takes long to start is asked less and less often: asking costs the cores it starts on


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: a name for people, the argument list, what is added to the environment, and the log it writes."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    def shell(self) -> str:
        """The command as one line that a shell would run."""
        return " ".join([*(f"{key}={shlex.quote(value)}" for key, value in self.env.items()), shlex.join(self.argv)])


def _inherited() -> dict[str, str]:
    """This process's environment, without what would make servers share their metrics.

    vLLM sets PROMETHEUS_MULTIPROC_DIR in whatever process imports it, and servers that inherit it count together.
    """
    return {name: value for name, value in os.environ.items() if name != "PROMETHEUS_MULTIPROC_DIR"}


def _end_with_parent() -> None:
    """In the child, before the program: SIGTERM for it when we are killed, since then nobody else could stop it."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def numbered(name: str, index: int) -> str:
    """The name of the service `index` (from 0) of its kind: the first goes without a number."""
    return name if index == 0 else f"{name}-{index}"


class Process:
    """A started service. Its log is kept whole; its end is never silent: `exited` resolves when it is gone."""

    def __init__(self, command: Command, log: Path, child: asyncio.subprocess.Process) -> None:
        self.command = command
        self.log = log
        self.pid = child.pid
        self._child = child
        self._segments: set[str] = set()

    @staticmethod
    async def start(command: Command, log: Path) -> "Process":
        """Start `command`, stdout and stderr appended to `log`. Raises StackError when the program is missing."""
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("ab") as out:
                child = await asyncio.create_subprocess_exec(
                    *command.argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env={**_inherited(), **command.env},
                    start_new_session=True,
                    preexec_fn=_end_with_parent,
                )
        except OSError as error:
            raise StackError(
                f"{command.name} cannot be started: {error.strerror}",
                where=command.argv[0],
                remedy="run `kvreplay doctor`: it names what is missing and how to install it",
            ) from error
        return Process(command, log, child)

    @property
    def returncode(self) -> int | None:
        """The exit status, or None while it runs (negative: the signal that ended it)."""
        return self._child.returncode

    async def exited(self) -> int:
        """Wait until the process is gone; the exit status."""
        return await self._child.wait()

    async def ready(self, probe: Callable[[], Awaitable[bool]], deadline_s: float) -> None:
        """Wait until `probe` says yes. Raises StackError with the log's last lines if it exits or the time is up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + deadline_s
        wait_s = _POLL_S / 2
        while not await probe():
            self.note_segments()
            if self.returncode is not None:
                raise self.failure(f"{self.command.name} ended with status {self.returncode} while starting")
            if loop.time() > until:
                raise self.failure(f"{self.command.name} was not ready after {deadline_s:.0f} s")
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _SLOWEST_POLL_S)
        self.note_segments()

    def failure(self, what: str) -> StackError:
        """A StackError that shows the last lines of this service's log and the remedy they suggest."""
        return StackError(what, where=str(self.log), remedy=remedy_for(self.log), detail=last_lines(self.log))

    def note_segments(self) -> None:
        """Remember the shared-memory segments this service's processes have mapped, to remove what they leave."""
        for pid in session_members(self.pid):
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                    if _SHM in line:
                        self._segments.add(line[line.index(_SHM) :].removesuffix(" (deleted)"))

    async def stop(self, grace_s: float = 15.0) -> None:
        """SIGTERM, SIGKILL after `grace_s`, for the whole session; then remove the segments it left. Never raises."""
        self.note_segments()
        self._signal_leader(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._child.wait(), grace_s)
        await self._end_session()
        await self._child.wait()
        self._remove_segments()

    async def _end_session(self, patience_s: float = 3.0) -> None:
        """Members that outlive their leader get a moment, SIGTERM, another moment, then SIGKILL.

        What is stopped first can map no further segment between the last look at its memory and its end.
        """
        for number in (signal.SIGTERM, signal.SIGKILL):
            for _ in range(int(patience_s / _POLL_S)):
                if not session_members(self.pid):
                    return
                self.note_segments()
                await asyncio.sleep(_POLL_S)
            if number is signal.SIGKILL:
                self._signal_session(signal.SIGSTOP)
                self.note_segments()
            self._signal_session(number)

    def _signal_session(self, number: signal.Signals) -> None:
        for pid in session_members(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _remove_segments(self) -> None:
        for segment in self._segments:
            Path(segment).unlink(missing_ok=True)

    def _signal_leader(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(number)


def session_members(leader: int) -> list[int]:
    """The pids of a session that `leader` started, itself included; zombies are not members any more."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):
            state, fields = _stat(entry / "stat")
            if fields == leader and state != "Z":
                members.append(int(entry.name))
    return members


def _stat(path: Path) -> tuple[str, int]:
    """State and session of a process, from /proc/PID/stat (proc(5): the command's name is in parentheses)."""
    rest = path.read_text().rpartition(")")[2].split()
    return rest[0], int(rest[3])
