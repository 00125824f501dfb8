"""Writes a trace as Mooncake JSONL with its sidecar; reading it back gives the same rows."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import orjson

from harness.trace.request import TraceRequest
from harness.trace.sidecar import Sidecar, sidecar_path


def write_trace(path: Path, rows: Iterable[TraceRequest], meta: Sidecar) -> Sidecar:
    """Writes `rows` (in order of arrival) to `path` and the sidecar beside it; returns the sidecar as written.

    Times are written in ms, whole where they are; `rows`, `sha256` and `time_unit` of `meta` are filled in. A crash in
    between leaves a sidecar whose sha256 does not fit, so that a half-written pair is refused, not replayed.
    """
    lines = [orjson.dumps(_line(request)) for request in rows]
    content = b"".join(line + b"\n" for line in lines)
    written = replace(meta, rows=len(lines), sha256=hashlib.sha256(content).hexdigest(), time_unit="ms")
    path.write_bytes(content)
    sidecar_path(path).write_bytes(written.encode())
    return written


def _line(request: TraceRequest) -> dict[str, object]:
    ms, rest_us = divmod(request.arrival_us, 1000)
    row: dict[str, object] = {
        "timestamp": request.arrival_us / 1000 if rest_us else ms,
        "input_length": request.input_tokens,
        "output_length": request.output_tokens,
        "hash_ids": request.blocks,
    }
    return {**row, "session_id": request.session} if request.session else row
