"""What a format is: what it declares for all its rows, and how it finds and reads them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness.trace.options import TIME_UNITS_NS, ReadOptions
from harness.trace.sidecar import Sidecar


class RawRow(NamedTuple):
    """A row that is right by itself, as its source says it.

    `time_us` is on the source's own clock; None counts from the session's previous turn, `delay_us` after it. `ids` is
    None where nothing is known of what the prompt shares; they mean something within `scope` only.
    """

    time_us: int | None
    input_tokens: int
    output_tokens: int
    ids: Sequence[int | str] | None
    session: str = ""
    scope: str = ""
    delay_us: int | None = None
    request_id: str = ""


Record = tuple[int | str, Callable[[], RawRow]]
"""Where a row is (its line, or a place in words), and the call that reads it or raises RowError."""


@dataclass(frozen=True, slots=True)
class Form:
    """A format. `declare` says what holds for all rows of a file; `records` finds the rows under what was declared.

    `hashed` is False where rows never say what they share; `units` are those in which its times may be declared.
    `records` raises TraceError where the file as a whole is no file of this format.
    """

    name: str
    declare: Callable[[Path, ReadOptions], Sidecar]
    records: Callable[[Path, Sidecar, ReadOptions], Iterator[Record]]
    hashed: bool = True
    units: tuple[str, ...] = tuple(TIME_UNITS_NS)
