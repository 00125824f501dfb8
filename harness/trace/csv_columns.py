"""CSV whose columns are named by their user: the reader of any table, and what the readers of known tables share.

Columns are found by name, never by position, and the set that is needed is checked before the first row. A table says
its unit (`time_unit`: ns, us, ms, s, or iso for dates) because no table's header does. A `hash_ids` cell holds ids
between blanks, or a JSON list; an empty one says nothing of what the row shares.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from harness.errors import TraceError
from harness.trace import fields
from harness.trace.form import Form, RawRow, Record
from harness.trace.lines import csv_rows
from harness.trace.options import TIME_UNITS_NS, ReadOptions
from harness.trace.sidecar import Sidecar

_NEEDED = ("timestamp", "input_length")
_KNOWN = (*_NEEDED, "output_length", "hash_ids", "session_id", "request_id", "delay")

Cells = Mapping[str, str]


def table(path: Path, needed: Sequence[str], read: Callable[[Cells], RawRow]) -> Iterator[Record]:
    """The records of a CSV file with a header: each row as cells by column, which `read` reads.

    Raises TraceError for a header without a needed column, or with one twice; a row of more or fewer cells than the
    header is a RowError, and so is a blank line.
    """
    rows = csv_rows(path)
    number, header = next(rows, (1, []))
    if number == 1 and not header:
        raise TraceError("no rows in the trace", where=str(path), remedy="give a file with a header and rows")
    names = [name.strip() for name in header]
    for name in needed:
        if names.count(name) != 1:
            raise TraceError(
                f"column {name!r} is {'twice' if name in names else 'not'} in the header: {','.join(names)[:200]}",
                where=f"{path}:{number}",
                remedy="give a file with this header line, or name the columns",
            )
    for line, cells in rows:
        yield line, partial(_cells, names, cells, read)


def _cells(names: Sequence[str], cells: Sequence[str], read: Callable[[Cells], RawRow]) -> RawRow:
    if not cells:
        raise fields.RowError("blank line", remedy="remove it", reason="blank line")
    if len(cells) != len(names):
        raise fields.RowError(
            f"{len(cells)} cells in a table of {len(names)} columns",
            remedy="correct or remove this line",
            reason="another number of cells than columns",
        )
    return read(dict(zip(names, map(str.strip, cells), strict=True)))


def tokens(cells: Cells, name: str, *, least: int = 1) -> int:
    """The length in the column `name`. Raises RowError."""
    return fields.token_count(fields.number(cells[name], name), name, least=least)


def _records(path: Path, declared: Sidecar, options: ReadOptions) -> Iterator[Record]:
    columns = options.columns
    for name in columns:
        if name not in _KNOWN:
            raise TraceError(f"no field {name!r}", where="columns", remedy=f"map some of {', '.join(_KNOWN)}")
    needed = _NEEDED if options.output_tokens is not None else (*_NEEDED, "output_length")
    missing = [name for name in needed if name not in columns]
    if missing:
        raise TraceError(
            f"no column is named for {' and '.join(missing)}",
            where="columns",
            remedy="name them: --column timestamp=NAME --column input_length=NAME --column output_length=NAME",
        )
    read = partial(_row, columns=columns, unit=declared.time_unit, output_tokens=options.output_tokens)
    return table(path, tuple(columns.values()), read)


def _row(cells: Cells, *, columns: Mapping[str, str], unit: str, output_tokens: int | None) -> RawRow:
    when = columns["timestamp"]
    if unit == "iso":
        time_us = fields.wall_clock_us(cells[when], when)[0]
    else:
        time_us = fields.instant_us(fields.number(cells[when], when), unit, when)
    delay = cells[columns["delay"]] if "delay" in columns else ""
    ids = cells[columns["hash_ids"]] if "hash_ids" in columns else ""
    return RawRow(
        time_us=time_us,
        input_tokens=tokens(cells, columns["input_length"]),
        output_tokens=tokens(cells, columns["output_length"], least=0)
        if "output_length" in columns
        else output_tokens or 0,
        ids=_ids(ids, columns["hash_ids"]) if ids else None,
        session=cells[columns["session_id"]] if "session_id" in columns else "",
        delay_us=fields.instant_us(fields.number(delay, columns["delay"]), "ms", columns["delay"]) if delay else None,
        request_id=cells[columns["request_id"]] if "request_id" in columns else "",
    )


def _ids(cell: str, name: str) -> Sequence[int | str]:
    if cell.startswith("["):
        return fields.block_ids(fields.json_object(f'{{"ids":{cell}}}')["ids"], name)
    return [int(word) if word.isdecimal() and word.isascii() else word for word in cell.split()]


def _declare(path: Path, options: ReadOptions) -> Sidecar:
    if options.time_unit is None:
        raise TraceError(
            "the unit of the times is not known", where=str(path), remedy="give --time-unit: ns, us, ms, s or iso"
        )
    if "hash_ids" in options.columns and options.block_size is None:
        raise TraceError(
            "hash_ids without a block size", where=str(path), remedy="give --block-size: tokens a block of this table"
        )
    return Sidecar(provenance="recorded")


CSV = Form("csv", _declare, _records, units=(*TIME_UNITS_NS, "iso"))
