"""Mooncake's JSONL, read strictly: a request a line, times in ms, blocks of 512 tokens unless a sidecar says else.

The format: github.com/kvcache-ai/Mooncake, FAST25-release/traces. Everything is checked before a Trace is returned.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from harness.errors import TraceError
from harness.trace import fields
from harness.trace.request import Trace, TraceRequest
from harness.trace.sidecar import Sidecar, read_sidecar, sidecar_path

_UNIT_US = {"us": 1, "ms": 1_000, "s": 1_000_000}
_EPOCH_DIGITS = {16: "us", 19: "ns"}
_USUAL_BLOCK_SIZES = (16, 32, 64, 128, 256, 512, 1024)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class _Row:
    """A line that is right by itself: its number in the file (from 1), its time in us and what it says."""

    line: int
    time_us: int
    session: str
    input_tokens: int
    output_tokens: int
    ids: tuple[int | str, ...]


def read_mooncake(path: Path) -> Trace:
    """The trace in `path`, in order of arrival (rows of one time keep the file's order), times from the first arrival.

    Accepts a BOM, keys it does not know, and the names `input_tokens`, `output_tokens`, `created_time`. An optional
    sidecar (`sidecar_path`) declares unit, block size and tail rule. Raises TraceError that names file:line, field and
    value for the first row that cannot be used as declared, and for a file without rows.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(
            f"cannot read the trace: {error.strerror}", where=str(path), remedy="give a JSONL file"
        ) from error
    declared = read_sidecar(path, content)
    sidecar = declared or Sidecar()
    rows = [_row(line, number, path, sidecar) for number, line in enumerate(_lines(content, path), start=1)]
    if declared is None:
        _refuse_undeclared_epoch(rows[0], path)
    if sidecar.rows is not None and sidecar.rows != len(rows):
        raise TraceError(
            f"rows is {sidecar.rows}, but {path.name} has {len(rows)}",
            where=str(sidecar_path(path)),
            remedy="restore the file that the sidecar describes",
        )
    rows.sort(key=lambda row: row.time_us)
    return Trace(_requests(rows, path, sidecar), sidecar.block_size, str(path), sidecar.provenance)


def _lines(content: bytes, path: Path) -> list[bytes]:
    content = content.removeprefix(_BOM)
    if not content.strip():
        raise TraceError("no rows in the trace", where=str(path), remedy="give a file with one JSON object a line")
    lines = content.split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def _row(line: bytes, number: int, path: Path, sidecar: Sidecar) -> _Row:
    where = f"{path}:{number}"
    if not line.strip():
        raise TraceError("blank line", where=where, remedy="remove it")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise TraceError(f"not UTF-8: {error.reason}", where=where, remedy="save the file as UTF-8") from error
    row = fields.json_object(text, where)
    time = fields.timestamp(row, ("timestamp", "created_time"), where)
    parsed = _Row(
        line=number,
        time_us=round(Fraction(time) * _UNIT_US[sidecar.time_unit]),
        session=fields.text(row, "session_id", where),
        input_tokens=fields.tokens(row, ("input_length", "input_tokens"), where),
        output_tokens=fields.tokens(row, ("output_length", "output_tokens"), where),
        ids=fields.block_ids(row, where),
    )
    _check_id_count(parsed, where, sidecar, path)
    return parsed


def _check_id_count(row: _Row, where: str, sidecar: Sidecar, path: Path) -> None:
    """The declared tail rule says how many ids a prompt has; no ids would mean nothing is known of what it shares."""
    count, size = len(row.ids), sidecar.block_size
    low, high = _ids_of(row.input_tokens, size, sidecar.tail)
    if low <= count <= high:
        return
    if count == 0:
        remedy = "give its block ids, or remove the row: without them nothing is known of what it shares"
        raise TraceError("hash_ids is []", where=where, remedy=remedy)
    fitting = [str(b) for b in _USUAL_BLOCK_SIZES if _ids_of(row.input_tokens, b, sidecar.tail)[0] == count]
    hint = f" (this row fits {' and '.join(fitting)})" if fitting and sidecar.tail != "unhashed" else ""
    first = {"ceil": (count - 1) * size + 1}.get(sidecar.tail, count * size)
    last = {"ceil": f" to {count * size}", "floor": f" to {(count + 1) * size - 1}"}.get(sidecar.tail, " or more")
    raise TraceError(
        f"hash_ids has {count} ids, which need {first}{last} tokens at block_size {size} (tail {sidecar.tail}), "
        f"but input_length is {row.input_tokens}",
        where=where,
        remedy=f"correct the row, or declare block_size{hint} and tail in {sidecar_path(path).name}",
    )


def _ids_of(input_tokens: int, block_size: int, tail: str) -> tuple[int, int]:
    """The least and the greatest number of ids a prompt may have under a tail rule."""
    whole = input_tokens // block_size
    if tail == "ceil":
        whole = -(-input_tokens // block_size)
    return (min(1, whole) if tail == "unhashed" else whole), whole


def _refuse_undeclared_epoch(first: _Row, path: Path) -> None:
    """Unix times of today in us or ns, read as ms, would replay for centuries: refuse them unless a sidecar says ms."""
    digits = len(str(first.time_us // _UNIT_US["ms"]))
    if digits in _EPOCH_DIGITS:
        raise TraceError(
            f"timestamp of {digits} digits is no time in ms: it looks like Unix time in {_EPOCH_DIGITS[digits]}",
            where=f"{path}:{first.line}",
            remedy=f"declare time_unit in {sidecar_path(path).name} (us, ms or s)",
        )


def _requests(rows: Sequence[_Row], path: Path, sidecar: Sidecar) -> tuple[TraceRequest, ...]:
    """Rows in order of arrival as requests: times from the first one, ids interned, turns counted by session."""
    dense: dict[object, int] = {}
    sizes: list[tuple[int, int]] = []
    turns: Counter[str] = Counter()
    requests = []
    for row in rows:
        arrival_us = row.time_us - rows[0].time_us
        if arrival_us > fields.MAX_SPAN_US:
            raise TraceError("timestamp is more than 292 years after the first", where=f"{path}:{row.line}")
        blocks = []
        for position, name in enumerate(row.ids):
            block = dense.setdefault((row.session, name) if sidecar.hash_scope == "session" else name, len(dense))
            covered = min(sidecar.block_size, row.input_tokens - position * sidecar.block_size)
            if block == len(sizes):
                sizes.append((covered, row.line))
            if sizes[block][0] != covered:
                _refuse_two_sizes(name, sizes[block], (covered, row.line), path)
            blocks.append(block)
        turn = turns[row.session] if row.session else 0
        turns[row.session] += 1
        requests.append(
            TraceRequest(
                row.line - 1, row.session, turn, arrival_us, row.input_tokens, row.output_tokens, tuple(blocks)
            )
        )
    return tuple(requests)


def _refuse_two_sizes(name: object, one: tuple[int, int], other: tuple[int, int], path: Path) -> None:
    (first_size, first_line), (second_size, second_line) = sorted((one, other), key=lambda seen: seen[1])
    raise TraceError(
        f"hash_ids has {fields.shown(name)} for {second_size} tokens, but line {first_line} has it for {first_size}",
        where=f"{path}:{second_line}",
        remedy="give blocks of different content different ids; if the rule is another, declare tail in "
        f"{sidecar_path(path).name}",
    )
