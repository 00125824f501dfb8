"""Trace files for tests, and the plainest possible answer to what an infinite cache would hit."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.trace import TraceRequest, sidecar_path

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "traces"


def row(**changes: Any) -> dict[str, Any]:
    """A Mooncake row of one whole and one partial block, with changes; a change to None leaves the key out."""
    whole = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [7, 8]} | changes
    return {name: value for name, value in whole.items() if value is not None}


def jsonl(path: Path, *rows: object, meta: dict[str, object] | None = None) -> Path:
    """A file of these rows (or raw lines), with a sidecar if `meta` is given."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sidecar_path(path).unlink(missing_ok=True)
    if meta is not None:
        sidecar_path(path).write_text(json.dumps({"schema": 1, **meta}))
    return path


def lines(path: Path, *rows: str) -> Path:
    """A file of these lines."""
    path.write_text("".join(f"{line}\n" for line in rows), encoding="utf-8")
    return path


def hit_tokens(requests: Iterable[TraceRequest], block_size: int) -> list[int]:
    """By request, how many of its leading tokens lie in blocks with which an earlier request began too."""
    seen: set[tuple[int, ...]] = set()
    hits = []
    for request in requests:
        starts = [request.blocks[: n + 1] for n in range(len(request.blocks))]
        run = next((n for n, start in enumerate(starts) if start not in seen), len(starts))
        hits.append(min(run * block_size, request.input_tokens))
        seen.update(starts)
    return hits
