"""One line of a log as LMCache's logging writes it, taken apart: who wrote it, when, how serious it is, what it says.

    (Worker_TP1 pid=4242) [2026-11-29 20:01:02,345] LMCache INFO: Stored 256 tokens in 0.001 seconds (file.py:1:module)

The envelope is the same in LMCache 0.3.1 to 0.5.6. What stands in front of it is vLLM's, and differs by version:
`(VllmWorker rank=1 pid=2)`, `(EngineCore_0 pid=1) (VllmWorker TP0 pid=2)`, `(Worker_TP0 pid=2)`, nothing since 0.31.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_COLOURS = ("\x1b[0m", "\x1b[3m", "\x1b[32;20m")  # those of nearly every line: replacing them is quicker
_MARK = "] LMCache "
_STAMP_CHARACTERS = 23
_PLAIN_OPENING = f"{_MARK}INFO: "
TEXT_AT = 1 + _STAMP_CHARACTERS + len(_PLAIN_OPENING)
_OPENING = slice(1 + _STAMP_CHARACTERS, TEXT_AT)
_PROCESS = re.compile(r"\((?P<name>[A-Za-z]\w*)(?P<more>[^()]*) pid=(?P<pid>\d+)\)")
_RANK = re.compile(r"\brank=(\d+)|TP(\d+)")


class Message(NamedTuple):
    """What one LMCache process said: `t_unix_ns` by its clock, the `level`, the text; `cut` if another spoke into it.

    `process` is what vLLM put in front, which names the writer.
    """

    process: str
    t_unix_ns: int
    level: str
    text: str
    cut: bool


def plain(raw: str) -> str:
    """A line without its colours and its end, as text that every encoding can hold."""
    line = raw.rstrip("\r\n")
    if "\x1b" in line:
        for colour in _COLOURS:
            line = line.replace(colour, "")
        if "\x1b" in line:
            line = _ANSI.sub("", line)
    return line if line.isascii() else line.encode("utf-8", "replace").decode()


def messages(line: str) -> tuple[Message, ...]:
    """The messages that a plain line holds: none in a line of others, several where processes wrote over one another.

    What stands before a message goes to `process`, unless it is the beginning of another message.
    """
    return tuple(_messages(line))


def opens_plainly(line: str) -> int | None:
    """When a line was stamped (unix ns) that nothing stands in front of, at INFO, and that holds one message only.

    Its text then begins at TEXT_AT. Nearly every line about a move is such a one.
    """
    if line[_OPENING] != _PLAIN_OPENING or line.find(_MARK, TEXT_AT) >= 0:
        return None
    return _unix_ns(line[1 : _OPENING.start])


@lru_cache(maxsize=1024)
def writer(process: str) -> tuple[int | None, int | None]:
    """The (rank, pid) of the process that vLLM named in front of a line; None each where it did not."""
    found = list(_PROCESS.finditer(process))
    if not found:
        return None, None
    rank = _RANK.search(found[-1]["name"] + found[-1]["more"])
    return (int(rank[1] or rank[2]) if rank else None), int(found[-1]["pid"])


def _messages(line: str) -> Iterator[Message]:
    start, mark = 0, _next_envelope(line, 0)
    while mark >= 0:
        follows = _next_envelope(line, mark + len(_MARK))
        opening = mark - _STAMP_CHARACTERS - 1
        colon = line.find(": ", mark)
        t_unix_ns = _unix_ns(line[opening + 1 : mark])
        if t_unix_ns is not None and colon >= 0:
            end = len(line) if follows < 0 else _begin(line, follows - _STAMP_CHARACTERS - 1)
            level = line[mark + len(_MARK) : colon]
            yield Message(line[start:opening], t_unix_ns, level, line[colon + 2 : end], follows >= 0)
            start = end
        mark = follows


def _next_envelope(line: str, start: int) -> int:
    """Where the mark of the next envelope stands; messages may hold the same words, but no stamp before them."""
    mark = line.find(_MARK, start)
    while mark >= 0 and (mark < _STAMP_CHARACTERS + 1 or line[mark - _STAMP_CHARACTERS - 1] != "["):
        mark = line.find(_MARK, mark + 1)
    return mark


def _begin(line: str, opening: int) -> int:
    """Where a message begins whose envelope opens at `opening`: before vLLM's names of its process, if any."""
    while line.endswith(") ", 0, opening) and (at := line.rfind("(", 0, opening)) >= 0:
        if _PROCESS.fullmatch(line[at : opening - 1]) is None:
            break
        opening = at
    return opening


@lru_cache(maxsize=4096)
def _unix_ns(stamp: str) -> int | None:
    seconds_ns = _second_ns(stamp[:19])
    millis = stamp[20:]
    return None if seconds_ns is None or not millis.isdecimal() else seconds_ns + int(millis) * 1_000_000


@lru_cache(maxsize=4096)
def _second_ns(stamp: str) -> int | None:
    """LMCache stamps in the local time of its machine, taken to be ours; the hour repeated in autumn is its first."""
    try:
        local = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S").astimezone()
    except (ValueError, OverflowError):
        return None
    return int(local.timestamp()) * 1_000_000_000
