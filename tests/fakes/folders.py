"""Run folders on disk, made of a run in memory."""

import json
from pathlib import Path

from harness.records import SCHEMA_VERSION, Run
from harness.store.parquet import write_parquet
from harness.store.rows import schema


def written(run: Run, results: Path, name: str = "20261130T020000Z-aaaaaa") -> Path:
    """`run` as a folder below `results`/<experiment>/; its path."""
    folder = results / str(run.meta["experiment"]) / name
    folder.mkdir(parents=True)
    identity = {"schema_version": SCHEMA_VERSION, "run_id": name.partition("-")[2], "utc": name.partition("-")[0]}
    (folder / "run.json").write_text(json.dumps(identity | dict(run.meta)))
    for table in ("requests", "loads", "samples", "passes"):
        rows = getattr(run, table)
        write_parquet(folder, table, rows.cast(schema(table)))
    return folder
