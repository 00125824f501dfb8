"""Server-sent events, decoded after the fact from timed bytes (WHATWG HTML, section 9.2.6)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n?|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """The data of one event, and when the byte that completed it arrived."""

    t_ns: int
    data: bytes


def decode_events(chunks: Sequence[tuple[int, bytes]]) -> list[Event]:
    """The events in a response body given as (arrival time ns, bytes), in order of arrival.

    An event is complete with the first byte of the line end of its blank line (of CR LF: the CR). What it says and
    when it was complete do not depend on how the bytes were split. Lines end in CR LF, LF or CR; comments, other
    fields and events without data are passed over; several data lines are joined by LF; a tail without its blank
    line is no event. Never raises.
    """
    buffer = b"".join([data for _, data in chunks])
    line_from = len(_BYTE_ORDER_MARK) if buffer.startswith(_BYTE_ORDER_MARK) else 0
    arrivals = _Arrivals(chunks)
    events: list[Event] = []
    data: list[bytes] = []
    for end in _LINE_END.finditer(buffer, line_from):
        line, line_from = buffer[line_from : end.start()], end.end()
        if line.startswith(b"data:") or line == b"data":
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            events.append(Event(arrivals.of(end.start()), b"\n".join(data)))
            data = []
    return events


class _Arrivals:
    """When each byte of the joined chunks arrived, asked in rising order of position."""

    def __init__(self, chunks: Sequence[tuple[int, bytes]]) -> None:
        self._chunks = iter(chunks)
        self._t_ns, self._end = 0, 0

    def of(self, position: int) -> int:
        while position >= self._end:
            self._t_ns, data = next(self._chunks)
            self._end += len(data)
        return self._t_ns
