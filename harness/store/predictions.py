"""What was predicted of an arm before it was measured: predictions/<arm>.parquet, with the columns of requests."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import RunFolderError
from harness.records import RequestRecord
from harness.store.folder import write_atomically
from harness.store.rows import batch, schema
from harness.store.versions import check_version

_FOLDER = "predictions"


def write_predictions(folder: Path, arm: str, records: Sequence[RequestRecord], run_id: str) -> None:
    """Write the simulated records of an arm, whole or not at all."""
    path = folder / _FOLDER
    path.mkdir(exist_ok=True)
    table = pa.Table.from_batches([batch("requests", records, run_id)])
    write_atomically(path / f"{arm}.parquet", lambda file: pq.write_table(table, file, compression="zstd"))


def read_predictions(folder: Path) -> pa.Table:
    """Every arm's predictions, one row a request, if any were made. Raises RunFolderError for a broken file."""
    tables = [schema("requests").empty_table()]
    for path in sorted((folder / _FOLDER).glob("*.parquet")):
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowInvalid) as error:
            raise RunFolderError(
                f"cannot read the predictions: {error}",
                where=str(path),
                remedy="remove the file: nothing is measured in it",
            ) from error
        check_version(table.schema, path)
        tables.append(table.select(schema("requests").names).cast(schema("requests")))
    return pa.concat_tables(tables)
