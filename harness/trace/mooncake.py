"""Mooncake's JSONL and its kin: a request a line, times in ms and blocks of 512 tokens unless something says else.

The format: github.com/kvcache-ai/Mooncake, FAST25-release/traces. aiperf's variant may leave out `hash_ids`, and
`timestamp` where a turn has a `delay` after the one before (aiperf 0.13.0, MooncakeTrace); dynamo names the same fields
`input_tokens`, `output_tokens`, `created_time`, `delay_ms`. vLLM's `timed_trace` reads the same keys, or others that
`--timed-trace-label-*` name, but takes times for seconds and blocks for 16 tokens (vllm/benchmarks/datasets, 0.31.0).
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.trace import fields
from harness.trace.form import Form, RawRow, Record
from harness.trace.lines import numbered_lines
from harness.trace.options import ReadOptions
from harness.trace.sidecar import Sidecar

_ALIASES = {
    "timestamp": ("timestamp", "created_time"),
    "input_length": ("input_length", "input_tokens"),
    "output_length": ("output_length", "output_tokens"),
    "hash_ids": ("hash_ids",),
    "session_id": ("session_id",),
    "request_id": ("request_id",),
    "delay": ("delay", "delay_ms"),
}


def _records(path: Path, declared: Sidecar, options: ReadOptions) -> Iterator[Record]:
    names = {ours: (options.columns[ours],) if ours in options.columns else keys for ours, keys in _ALIASES.items()}
    parse = partial(_row, names=names, unit=declared.time_unit, output_tokens=options.output_tokens)
    for number, line in numbered_lines(path):
        yield number, partial(parse, line)


def _row(line: bytes, *, names: Mapping[str, tuple[str, ...]], unit: str, output_tokens: int | None) -> RawRow:
    row = fields.json_row(line)
    session = fields.text(row, names["session_id"][0])
    delay_us = _delay_us(row, names["delay"])
    timed = delay_us is None or not session or any(name in row for name in names["timestamp"])
    ids = row.get(names["hash_ids"][0])
    outputs_known = output_tokens is None or any(name in row for name in names["output_length"])
    return RawRow(
        time_us=fields.instant_us(fields.pick(row, names["timestamp"]), unit, names["timestamp"][0]) if timed else None,
        input_tokens=fields.token_count(fields.pick(row, names["input_length"]), names["input_length"][0]),
        output_tokens=fields.token_count(fields.pick(row, names["output_length"]), names["output_length"][0], least=0)
        if outputs_known
        else output_tokens or 0,
        ids=None if ids is None else fields.block_ids(ids, names["hash_ids"][0]),
        session=session,
        delay_us=delay_us,
        request_id=fields.text(row, names["request_id"][0]),
    )


def _delay_us(row: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The time since the end of the turn before: in ms, whatever the unit of the timestamps."""
    present = next((name for name in names if row.get(name) is not None), None)
    return None if present is None else fields.instant_us(row[present], "ms", present)


MOONCAKE = Form("mooncake", lambda _path, _options: Sidecar(), _records)
AIPERF = Form("aiperf", lambda _path, _options: Sidecar(), _records)
VLLM = Form("vllm", lambda _path, _options: Sidecar(time_unit="s", block_size=16), _records)
