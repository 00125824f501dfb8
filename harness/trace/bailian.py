"""Bailian's JSONL (Qwen traces A, B, coder, thinking): seconds, blocks of 16 tokens, the last one in part.

The format: github.com/alibaba-edu/qwen-bailian-usagetraces-anon, README. A block's id is a hash of the block alone, so
ids are contents, not prefixes. `chat_id` and `parent_chat_id` (-1 at the root) make conversations; a session is named
after its root, or after the oldest ancestor in the file. The conversation's own `turn` is not used: it counts from
requests that may have been left out of the file.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness.trace import fields
from harness.trace.form import Form, RawRow, Record
from harness.trace.lines import numbered_lines
from harness.trace.options import ReadOptions
from harness.trace.sidecar import Sidecar


def _records(path: Path, declared: Sidecar, _options: ReadOptions) -> Iterator[Record]:
    roots: dict[int, int] = {}
    for number, line in numbered_lines(path):
        yield number, partial(_row, line, declared.time_unit, roots)


def _row(line: bytes, unit: str, roots: dict[int, int]) -> RawRow:
    row = fields.json_row(line)
    chat, parent = _chat(row, "chat_id", 0), _chat(row, "parent_chat_id", -1)
    raw = RawRow(
        time_us=fields.instant_us(fields.pick(row, ("timestamp",)), unit, "timestamp"),
        input_tokens=fields.token_count(fields.pick(row, ("input_length",)), "input_length"),
        output_tokens=fields.token_count(fields.pick(row, ("output_length",)), "output_length", least=0),
        ids=None if row.get("hash_ids") is None else fields.block_ids(row["hash_ids"]),
        session=str(chat if parent == -1 else roots.get(parent, parent)),
        request_id=str(chat),
    )
    roots[chat] = chat if parent == -1 else roots.get(parent, parent)
    return raw


def _chat(row: dict[str, Any], name: str, least: int) -> int:
    value = fields.pick(row, (name,))
    if type(value) is not int or value < least:
        fields.refuse(name, value, f"write a whole number from {least}")
    return int(value)


BAILIAN = Form(
    "bailian",
    lambda _path, _options: Sidecar(
        time_unit="s",
        block_size=16,
        hash_kind="content",
        source="https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon",
        licence="Apache-2.0",
        provenance="recorded",
    ),
    _records,
)
