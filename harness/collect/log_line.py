"""One line of a log as LMCache's logging writes it, taken apart: who wrote it, when, how serious it is, what it says.

    (Worker_TP1 pid=4242) [2026-11-29 20:01:02,345] LMCache INFO: Stored 256 tokens in 0.001 seconds (file.py:1:module)

The envelope is the same in LMCache 0.3.1 to 0.5.6. What stands in front of it is vLLM's, and differs by version:
`(VllmWorker rank=1 pid=2)`, `(EngineCore_0 pid=1) (VllmWorker TP0 pid=2)`, `(Worker_TP0 pid=2)`, nothing since 0.31.
"""

import re
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

MARK = "] LMCache "
_STAMP = r"\[(\d{4}-\d\d-\d\d \d\d:\d\d):(\d\d),(\d{3})"

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_COLOURED = re.compile(r"\x1b\[\d+;20m([^\x1b]+)\x1b\[0m([^\x1b]+)\x1b\[3m([^\x1b]+)\x1b\[0m\n?")
_STAMPED = re.compile(_STAMP)
STAMP_LENGTH = len("[2026-11-29 20:01:02,345")
_MILLI_AT = STAMP_LENGTH - 3
_ENVELOPE = re.compile(rf"{_STAMP}{MARK}(?P<level>\w+): ")
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
    coloured = _COLOURED.fullmatch(raw)  # as nearly all are: a third of the time
    line = "".join(coloured.groups()) if coloured is not None else _ANSI.sub("", raw).rstrip("\r\n")
    return line if line.isascii() else line.encode("utf-8", "replace").decode()


def messages(line: str) -> tuple[Message, ...]:
    """The messages that a plain line holds: none in a line of others, several where processes wrote over one another.

    What stands before a message goes to `process`, unless it is the beginning of another message.
    """
    found = [(one, t) for one in _ENVELOPE.finditer(line) if (t := unix_ns(one[1], one[2], one[3])) is not None]
    if len(found) == 1:
        ((one, t_unix_ns),) = found
        return (Message(line[: one.start()], t_unix_ns, one["level"], line[one.end() :], cut=False),)
    ends = [*(_begin(line, envelope.start()) for envelope, _ in found[1:]), len(line)]
    starts = [0, *ends]
    return tuple(
        Message(line[start : one.start()], t_unix_ns, one["level"], line[one.end() : end], end < len(line))
        for (one, t_unix_ns), start, end in zip(found, starts, ends, strict=False)
    )


def unix_ns(minute: str, second: str, milli: str) -> int | None:
    """When it was by the clock (ns since 1970); None for a time that there is not.

    LMCache stamps in the local time of its machine, taken to be ours; the hour repeated in autumn is its first.
    """
    minute_ns = _minute_ns(minute)
    return None if minute_ns is None else minute_ns + int(second + milli) * 1_000_000


def stamped_ns(line: str) -> int | None:
    """The same for a line that begins with its stamp; None for any other line. Lines of one second are near another."""
    second_ns, milli = _second_ns(line[:_MILLI_AT]), line[_MILLI_AT:STAMP_LENGTH]
    return second_ns + int(milli) * 1_000_000 if second_ns is not None and milli.isdecimal() else None


@lru_cache(maxsize=1024)
def writer(process: str) -> tuple[int | None, int | None]:
    """The (rank, pid) of the process that vLLM named in front of a line; None each where it did not."""
    found = list(_PROCESS.finditer(process))
    if not found:
        return None, None
    rank = _RANK.search(found[-1]["name"] + found[-1]["more"])
    return (int(rank[1] or rank[2]) if rank else None), int(found[-1]["pid"])


def _begin(line: str, opening: int) -> int:
    """Where a message begins whose envelope opens at `opening`: before vLLM's names of its process, if any."""
    while line.endswith(") ", 0, opening) and (at := line.rfind("(", 0, opening)) >= 0:
        if _PROCESS.fullmatch(line[at : opening - 1]) is None:
            break
        opening = at
    return opening


@lru_cache(maxsize=64)
def _second_ns(opening: str) -> int | None:
    found = _STAMPED.fullmatch(f"{opening}000")
    return None if found is None else unix_ns(found[1], found[2], found[3])


@lru_cache(maxsize=64)
def _minute_ns(stamp: str) -> int | None:
    try:
        return int(datetime.fromisoformat(stamp).timestamp()) * 1_000_000_000
    except (ValueError, OverflowError):
        return None
