"""A run folder back in memory."""

from pathlib import Path

from harness.errors import RunFolderError
from harness.records import SCHEMAS, Run
from harness.store.consolidate import journal_tables
from harness.store.folder import Status, read_meta
from harness.store.journal import JOURNAL
from harness.store.meta_shape import require_shape
from harness.store.parquet import read_parquet
from harness.store.predictions import read_predictions
from harness.store.versions import require_version


def open_run(folder: Path, *, allow_incomplete: bool = False) -> Run:
    """The run in `folder`: run.json, the four tables, and what was predicted.

    With `allow_incomplete` a run of any status opens; one that died (or still runs) is read from its journal, up to its
    last whole batch. A number that is not finite is null. Raises RunFolderError if the folder or a file is missing or
    not as kvreplay writes it, if the format is newer or older than this version reads, or if the status is not
    `complete` and `allow_incomplete` is not set.
    """
    meta = read_meta(folder)
    require_version(meta.get("schema_version"), folder / "run.json")
    require_shape(meta, folder / "run.json")
    status = meta.get("status")
    if status != Status.COMPLETE and not allow_incomplete:
        raise RunFolderError(
            f"this run is not complete: its status is {status!r}",
            where=str(folder / "run.json"),
            remedy="open it with --incomplete (allow_incomplete=True in Python) for what it has, or run it to the end",
        )
    if (folder / JOURNAL).is_dir():
        tables = journal_tables(folder)
    else:
        tables = {table: read_parquet(folder / f"{table}.parquet", table) for table in SCHEMAS}
    return Run(folder=folder, meta=meta, **tables, predictions=read_predictions(folder))
