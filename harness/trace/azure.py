"""Azure's CSV: a wall clock, lengths, no block ids. 2023 writes seven decimals and no offset, 2024 six and +00:00.

The format: github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md and 2024.md; lines end in LF or CRLF.
"""

from collections.abc import Iterator
from pathlib import Path

from harness.trace import fields
from harness.trace.csv_columns import Cells, table, tokens
from harness.trace.form import Form, RawRow, Record
from harness.trace.options import ReadOptions
from harness.trace.sidecar import Sidecar

_NEEDED = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def _records(path: Path, _declared: Sidecar, _options: ReadOptions) -> Iterator[Record]:
    offsets: list[bool] = []

    def row(cells: Cells) -> RawRow:
        time_us, with_offset = fields.wall_clock_us(cells["TIMESTAMP"], "TIMESTAMP")
        offsets[:] = offsets or [with_offset]
        if offsets != [with_offset]:
            fields.refuse("TIMESTAMP", cells["TIMESTAMP"], "write the offset from UTC in all rows, or in none")
        return RawRow(time_us, tokens(cells, "ContextTokens", least=0), tokens(cells, "GeneratedTokens", least=0), None)

    return table(path, _NEEDED, row)


AZURE = Form(
    "azure",
    lambda _path, _options: Sidecar(
        time_unit="iso",
        source="https://github.com/Azure/AzurePublicDataset",
        licence="CC-BY-4.0",
        provenance="recorded",
    ),
    _records,
    hashed=False,
    units=("iso",),
)
