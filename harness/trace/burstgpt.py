"""BurstGPT's CSV: seconds from midnight of the first day, lengths, no block ids.

Files 1 and 2 have six columns, file 3 has `Session ID` and `Elapsed time` between the first and the second
(github.com/HPMLL/BurstGPT, release v2.0; Session ID is empty on API rows). A failed request has no response tokens,
some have no request tokens either: those rows are left out and counted, unless `zero_output` one keeps the former.
Several rows of one second came one after another, not as a batch (the maintainer, issue 2): the file's order is kept.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness.trace import fields
from harness.trace.csv_columns import Cells, table, tokens
from harness.trace.form import Form, RawRow, Record
from harness.trace.options import ReadOptions
from harness.trace.sidecar import Sidecar

_NEEDED = ("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type")


def _records(path: Path, declared: Sidecar, options: ReadOptions) -> Iterator[Record]:
    return table(path, _NEEDED, partial(_row, unit=declared.time_unit, keep_failed=options.zero_output == "one"))


def _row(cells: Cells, *, unit: str, keep_failed: bool) -> RawRow:
    request, response, total = (
        tokens(cells, name, least=0) for name in ("Request tokens", "Response tokens", "Total tokens")
    )
    if request + response != total:
        raise fields.RowError(
            f"Total tokens is {total}, but Request tokens and Response tokens make {request + response}",
            remedy="correct or remove this line",
            reason="Total tokens: not the sum",
        )
    time_us = fields.instant_us(fields.number(cells["Timestamp"], "Timestamp"), unit, "Timestamp")
    if request == 0 or (response == 0 and not keep_failed):
        raise fields.DroppedRowError("a request that failed", remedy="leave it out", reason="failed request in source")
    return RawRow(time_us, request, response, None, session=cells.get("Session ID", ""))


BURSTGPT = Form(
    "burstgpt",
    lambda _path, _options: Sidecar(
        time_unit="s", source="https://github.com/HPMLL/BurstGPT", licence="CC-BY-4.0", provenance="recorded"
    ),
    _records,
    hashed=False,
)
