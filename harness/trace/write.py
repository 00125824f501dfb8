"""Writes a trace as Mooncake JSONL with its sidecar; reading it back gives the same rows."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import orjson

from harness.errors import TraceError
from harness.trace.request import TraceRequest
from harness.trace.sidecar import Sidecar, sidecar_path


def write_trace(path: Path, rows: Iterable[TraceRequest], meta: Sidecar, *, strict: bool = False) -> Sidecar:
    """Writes `rows` (in order of arrival) to `path` and the sidecar beside it; returns the sidecar as written.

    Times are written in ms, whole where they are; `rows`, `sha256` and `time_unit` of `meta` are filled in. `strict`
    writes the four keys of Mooncake's own files and nothing else, times rounded half up to whole ms. Rows are written
    as they come, to a file beside `path` that takes its name at the end: a crash leaves no half trace, at most one
    whose sidecar's sha256 does not fit, which is refused, not replayed.

    Raises TraceError where the files cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    digest, count = hashlib.sha256(), 0
    try:
        try:
            with part.open("wb") as file:
                for request in rows:
                    line = orjson.dumps(_four(request) if strict else _line(request)) + b"\n"
                    digest.update(line)
                    file.write(line)
                    count += 1
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        written = replace(meta, rows=count, sha256=digest.hexdigest(), time_unit="ms")
        sidecar_path(path).write_bytes(written.encode())
    except OSError as error:
        raise TraceError(
            f"cannot write the trace: {error.strerror}", where=str(path), remedy="give a place to write"
        ) from error
    return written


def _four(request: TraceRequest) -> dict[str, object]:
    return {
        "timestamp": (request.arrival_us + 500) // 1000,
        "input_length": request.input_tokens,
        "output_length": request.output_tokens,
        "hash_ids": request.blocks,
    }


def _line(request: TraceRequest) -> dict[str, object]:
    optional = {
        "session_id": request.session or None,
        "delay": None if request.delay_us is None else _ms(request.delay_us),
        "request_id": request.request_id or None,
    }
    given = {name: value for name, value in optional.items() if value is not None}
    return {**_four(request), "timestamp": _ms(request.arrival_us), **given}


def _ms(time_us: int) -> int | orjson.Fragment:
    """A time in ms with no digit lost: whole, or as decimals that a float would not hold for times of today."""
    ms, rest_us = divmod(time_us, 1000)
    return orjson.Fragment(f"{ms}.{rest_us:03}".rstrip("0")) if rest_us else ms
