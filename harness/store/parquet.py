"""One table, one parquet file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import RunFolderError
from harness.records import SCHEMAS
from harness.store.folder import write_atomically
from harness.store.versions import check_version, upgraded

_RESTORE = "restore it from a copy, or run the experiment again"


def write_parquet(folder: Path, table: str, rows: pa.Table) -> None:
    """Write `rows` to <table>.parquet in `folder` (zstd, the schema's metadata kept), whole or not at all."""
    write_atomically(folder / f"{table}.parquet", lambda file: pq.write_table(rows, file, compression="zstd"))


def read_parquet(folder: Path, table: str) -> pa.Table:
    """<table>.parquet of `folder`, as this format has it. Raises RunFolderError if it is missing, broken or unknown."""
    path = folder / f"{table}.parquet"
    try:
        rows = pq.read_table(path)
    except FileNotFoundError as error:
        raise RunFolderError(f"{path.name} is missing", where=str(folder), remedy=_RESTORE) from error
    except (OSError, pa.ArrowInvalid) as error:
        raise RunFolderError(f"cannot read {path.name}: {error}", where=str(path), remedy=_RESTORE) from error
    check_version(rows.schema, path)
    rows = upgraded(rows, table)
    absent = [name for name in SCHEMAS[table].names if name not in rows.column_names]
    if absent:
        raise RunFolderError(f"{path.name} has no column {absent[0]!r}", where=str(path), remedy=_RESTORE)
    return rows
