"""One table, one parquet file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import RunFolderError
from harness.records import SCHEMAS
from harness.store.folder import write_atomically
from harness.store.versions import check_version, upgraded

_RESTORE = "restore it from a copy, or run the experiment again"


def write_parquet(folder: Path, table: str, rows: pa.Table) -> None:
    """Write `rows` to <table>.parquet in `folder` (zstd, the schema's metadata kept), whole or not at all."""
    write_atomically(folder / f"{table}.parquet", lambda file: pq.write_table(rows, file, compression="zstd"))


def read_parquet(path: Path, table: str, remedy: str = _RESTORE) -> pa.Table:
    """The `table` in the file at `path`, with the columns and types of this format; what is not finite is null.

    Raises RunFolderError if the file is missing, broken, of another format version, or lacks a column.
    """
    try:
        rows = pq.read_table(path)
    except FileNotFoundError as error:
        raise RunFolderError(f"{path.name} is missing", where=str(path.parent), remedy=remedy) from error
    except (OSError, pa.ArrowInvalid) as error:
        raise RunFolderError(f"cannot read {path.name}: {_brief(error)}", where=str(path), remedy=remedy) from error
    check_version(rows.schema, path)
    rows = upgraded(rows, table)
    columns = []
    for field in SCHEMAS[table]:
        if field.name not in rows.column_names:
            raise RunFolderError(f"{path.name} has no column {field.name!r}", where=str(path), remedy=remedy)
        try:
            columns.append(_finite(rows[field.name].cast(field.type)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            what = f"column {field.name!r} of {path.name} holds no {field.type}: {_brief(error)}"
            raise RunFolderError(what, where=str(path), remedy=remedy) from error
    return pa.table(columns, schema=SCHEMAS[table].with_metadata(rows.schema.metadata))


def _finite(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of numbers, or of lists of numbers, with null for what is not finite."""
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_finite(column), column, None)
    if pa.types.is_list(column.type) and pa.types.is_floating(column.type.value_type):
        return pa.chunked_array([_finite_lists(chunk) for chunk in column.chunks], column.type)
    return column


def _finite_lists(lists: pa.ListArray) -> pa.ListArray:
    values = pc.if_else(pc.is_finite(lists.values), lists.values, None)
    return pa.ListArray.from_arrays(lists.offsets, values, mask=lists.is_null())


def _brief(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
