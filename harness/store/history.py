"""The history of nightly runs: one parquet file, a line a figure, every run once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import RunFolderError
from harness.records import SCHEMA_VERSION
from harness.store.folder import write_atomically
from harness.store.versions import check_version

_S, _F = pa.string(), pa.float64()
HISTORY = pa.schema(
    [
        *((name, _S) for name in ("run_id", "utc", "folder", "experiment", "verdict", "arm", "workload", "pass")),
        *((name, _S) for name in ("name", "unit")),
        *((name, _F) for name in ("value", "low", "high")),
        ("n", pa.int64()),
        ("identity", _S),
    ],
    metadata={"schema_version": str(SCHEMA_VERSION)},
)
"""The columns of history.parquet; docs/method.md says what they hold."""


def read_history(path: Path) -> list[dict[str, Any]]:
    """The lines of the history; none if there is no such file yet. Raises RunFolderError if it cannot be read."""
    if not path.exists():
        return []
    remedy = "give a history.parquet as kvreplay wrote it, or move it away to begin a new one"
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise RunFolderError(f"cannot read the history: {error}", where=str(path), remedy=remedy) from error
    check_version(table.schema, path)
    missing = [name for name in HISTORY.names if name not in table.column_names]
    if missing:
        raise RunFolderError(f"the history has no column {missing[0]!r}", where=str(path), remedy=remedy)
    lines: list[dict[str, Any]] = table.to_pylist()
    return lines


def append_history(path: Path, lines: Sequence[Mapping[str, Any]]) -> int:
    """Add the lines of one run, in place of what the history had of it; how many lines it has then.

    Written whole or not at all. Raises RunFolderError if what is there cannot be read.
    """
    runs = {line["run_id"] for line in lines}
    kept = [line for line in read_history(path) if line["run_id"] not in runs]
    table = pa.Table.from_pylist([*kept, *lines], schema=HISTORY)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: pq.write_table(table, file, compression="zstd"))
    return int(table.num_rows)
