"""The files of a log: the parts that rotation left, several processes' files, and those that still grow."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

_EVERY_S = 1.0


def log_files(pattern: str) -> tuple[Path, ...]:
    """The logs that `pattern` names: a path, its last part with * and ? or not; without what rotation left of them."""
    path = Path(pattern)
    paths = sorted(path.parent.glob(path.name)) if any(c in path.name for c in "*?[") else [path]
    heads = set(paths)
    return tuple(path for path in paths if not any(path in rotated_parts(head) for head in heads if head != path))


def rotated_parts(path: Path) -> tuple[Path, ...]:
    """What rotation left of a log beside it (log.1, log.2, log.2026-11-29), oldest first; without the log itself."""
    parts = [part for part in path.parent.glob(f"{path.name}.*") if part.is_file() and part.suffix != ".gz"]
    return tuple(sorted(parts, key=lambda part: (part.stat().st_mtime_ns, -_number(part))))


class LogTail:
    """The whole lines that come into a log, whatever rotation does to it: none is lost, none comes twice.

    It begins with the oldest part that rotation has left, or with what is written from now on (`from_end`).
    A file that is renamed is read to its end before the one that takes its place, and so are files that came and went
    in between. One that is cut short is read again from its beginning, and `shortened` counts that: what was written
    between the last look and the cut cannot be seen any more. Look more often than it rotates.
    """

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self.path = path
        self.shortened = 0
        self._file: IO[bytes] | None = None
        self._rest = b""
        parts = rotated_parts(path)
        self._seen = {part.stat().st_ino for part in parts} if from_end else set()
        if from_end and self._open(path) and self._file is not None:
            self._file.seek(0, os.SEEK_END)
        elif not from_end:
            self._open(parts[0] if parts else path)

    def read(self) -> list[str]:
        """The lines that have ended since the last time, each with its end."""
        data = self._rest + self._more()
        whole, end, self._rest = data.rpartition(b"\n")
        return [f"{line.decode('utf-8', 'replace')}\n" for line in whole.split(b"\n")] if end else []

    def rest(self) -> list[str]:
        """The same, and a last line whose end nobody has written; closes the file."""
        lines = self.read()
        last, self._rest = self._rest, b""
        self.close()
        return [*lines, last.decode("utf-8", "replace")] if last else lines

    def close(self) -> None:
        """Close the file; what has not been read is left."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _more(self) -> bytes:
        data = self._to_its_end()
        while self._moved_on():
            data += self._to_its_end()
        return data

    def _to_its_end(self) -> bytes:
        if self._file is None and not self._open(self.path):
            return b""
        assert self._file is not None  # noqa: S101 - it was opened
        if os.fstat(self._file.fileno()).st_size < self._file.tell():
            self.shortened += 1
            self._file.seek(0)
        return self._file.read()

    def _moved_on(self) -> bool:
        """Open what took the place of the file that was read, if anything did: a part not seen yet, else the log."""
        try:
            now = self.path.stat().st_ino
        except FileNotFoundError:
            return False
        if self._file is None or os.fstat(self._file.fileno()).st_ino == now:
            return False
        parts = rotated_parts(self.path)
        unseen = [part for part in parts if part.stat().st_ino not in self._seen]
        self._seen &= {part.stat().st_ino for part in parts}  # a number that is free again may be another file's
        self._file.close()
        return self._open(unseen[0] if unseen else self.path)

    def _open(self, path: Path) -> bool:
        try:
            self._file = path.open("rb")
        except FileNotFoundError:
            self._file = None
            return False
        self._seen.add(os.fstat(self._file.fileno()).st_ino)
        return True


class Followed:
    """Logs that are followed in a thread of their own, which only reads: lines are for later."""

    def __init__(self, paths: tuple[Path, ...], *, from_end: bool) -> None:
        self._tails = [LogTail(path, from_end=from_end) for path in paths]
        self._lines: dict[Path, list[str]] = {path: [] for path in paths}
        self._lock = threading.Lock()

    def look(self) -> None:
        """Take what has come."""
        with self._lock:
            for tail in self._tails:
                self._lines[tail.path] += tail.read()

    def end(self) -> dict[Path, list[str]]:
        """All lines by file, the last included even if its end is missing; nothing is followed any more."""
        with self._lock:
            for tail in self._tails:
                self._lines[tail.path] += tail.rest()
            return self._lines

    @property
    def shortened(self) -> dict[Path, int]:
        """How often each file was cut short while it was followed."""
        return {tail.path: tail.shortened for tail in self._tails if tail.shortened}


@contextmanager
def following(paths: tuple[Path, ...], *, from_end: bool) -> Iterator[Followed]:
    """Follow logs from here on, or from their beginning, until this is left."""
    followed, stop = Followed(paths, from_end=from_end), threading.Event()

    def follow() -> None:
        while not stop.wait(_EVERY_S):
            followed.look()

    thread = threading.Thread(target=follow, name="follow-logs", daemon=True)
    thread.start()
    try:
        yield followed
    finally:
        stop.set()
        thread.join()


def _number(part: Path) -> int:
    """log.2 is older than log.1."""
    suffix = part.suffix.removeprefix(".")
    return int(suffix) if suffix.isdecimal() else 0
