"""What was predicted of an arm before it was measured: predictions/<arm>.parquet, with the columns of requests."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.records import RequestRecord
from harness.store.folder import write_atomically
from harness.store.parquet import read_parquet
from harness.store.rows import batch, schema

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
        table = read_parquet(path, "requests", remedy="remove the file: nothing is measured in it")
        tables.append(table.replace_schema_metadata(tables[0].schema.metadata))
    return pa.concat_tables(tables)
