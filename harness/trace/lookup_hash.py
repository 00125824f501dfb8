"""LMCache's lookup-hash log: what a real deployment looked up, as a trace.

LMCache 0.5.5 with `--lookup-hash-log-dir` writes a line for each lookup (lmcache/v1/mp_observability/subscribers/
logging/lookup_hash.py, `_on_lookup_hashes`): `timestamp` (time.time(), seconds), `request_id`, `model_name`,
`chunk_size`, `seq_len` (tokens of the prompt), `dtypes`, `shapes`, `chunk_hashes` ("0x" and hex digits). Hashes are
rolling, of a chunk and all before it, and of whole chunks only (v1/multiprocess/token_hasher.py,
`compute_chunk_hashes`): floor(seq_len / chunk_size) of them. Files rotate as
lookup_hashes_YYYYmmdd_HHMMSS_NNNNNN.jsonl; a folder is read as one log.

What the log does not have: outputs (`output_tokens` gives them), and prompts shorter than a chunk, which are looked up
without a line. A request that is looked up again (after a preemption) counts once, as it came first.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from harness.errors import TraceError
from harness.trace import fields
from harness.trace.form import Form, RawRow, Record
from harness.trace.lines import numbered_lines
from harness.trace.options import ReadOptions
from harness.trace.sidecar import Sidecar

_HASH = re.compile(r"-?0x[0-9a-f]+", re.ASCII)


def _files(path: Path) -> list[Path]:
    """The log's files in order of time: their names sort so, but for the count behind the time after a restart."""
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("lookup_hashes_*.jsonl"))
    if not files:
        raise TraceError("no lookup_hashes_*.jsonl", where=str(path), remedy="give LMCache's --lookup-hash-log-dir")
    return files


def _declare(path: Path, _options: ReadOptions) -> Sidecar:
    for file in _files(path):
        for number, line in numbered_lines(file):
            try:
                size = fields.token_count(fields.pick(fields.json_row(line), ("chunk_size",)), "chunk_size")
            except fields.RowError as error:
                error.where = f"{file}:{number}"
                raise
            return Sidecar(
                time_unit="s", block_size=size, tail="floor", source="LMCache lookup-hash log", provenance="recorded"
            )
    raise TraceError("no rows in the trace", where=str(path), remedy="give a log with a lookup a line")


def _records(path: Path, declared: Sidecar, options: ReadOptions) -> Iterator[Record]:
    if options.output_tokens is None:
        raise TraceError(
            "the log has no output lengths", where=str(path), remedy="give one for all requests: --output-tokens N"
        )
    seen: set[str] = set()
    for file in _files(path):
        for number, line in numbered_lines(file):
            parse = partial(_row, line, declared, options.output_tokens, seen)
            yield f"{file.name}:{number}" if path.is_dir() else number, parse


def _row(line: bytes, declared: Sidecar, output_tokens: int, seen: set[str]) -> RawRow:
    row = fields.json_row(line)
    size = fields.token_count(fields.pick(row, ("chunk_size",)), "chunk_size")
    if size != declared.block_size:
        fields.refuse("chunk_size", size, f"read lookups of {declared.block_size} tokens a chunk and of {size} apart")
    request_id = fields.text(row, "request_id")
    raw = RawRow(
        time_us=fields.instant_us(fields.pick(row, ("timestamp",)), declared.time_unit, "timestamp"),
        input_tokens=fields.token_count(fields.pick(row, ("seq_len",)), "seq_len"),
        output_tokens=output_tokens,
        ids=_hashes(fields.pick(row, ("chunk_hashes",))),
        scope=fields.text(row, "model_name"),
        request_id=request_id,
    )
    if request_id in seen:
        raise fields.DroppedRowError(
            "a request looked up again", remedy="leave it out", reason="request looked up again"
        )
    if request_id:
        seen.add(request_id)
    return raw


def _hashes(value: object) -> Sequence[int | str]:
    hashes = fields.block_ids(value, "chunk_hashes")
    for position, one in enumerate(hashes):
        if not isinstance(one, str) or not _HASH.fullmatch(one):
            fields.refuse(f"chunk_hashes[{position}]", one, 'write hashes as "0x" and hex digits')
    return hashes


LOOKUP_HASH = Form("lookup-hash", _declare, _records)
