"""From the journal to parquet: at the end of a run, or later for a run that died."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from harness.errors import RunFolderError
from harness.records import Outcome
from harness.records.latency import mean, percentile
from harness.store.folder import RunFolder, Status
from harness.store.journal import JOURNAL, lock_journal, stream_path
from harness.store.parquet import read_parquet, write_parquet
from harness.store.rows import TABLES, schema
from harness.store.versions import check_version, upgraded

Join = Callable[[Mapping[str, pa.Table]], dict[str, pa.Table]]
_SPENT = "journal.done"
_PASS_KEY = ("arm", "workload", "pass", "repeat")


def consolidate(folder: Path, *, expected: Mapping[str, int] | None = None, join: Join | None = None) -> dict[str, int]:
    """Write requests, loads, samples and passes.parquet of what the journal holds, then remove it; rows per table.

    `join` fills in columns that only all tables together can tell, and keeps every row. `expected` is `Journal.counts`:
    rows in must equal rows out. Safe to repeat after a crash at any point, since the journal goes only when all four
    files are on the disk. Raises RunFolderError if another process still writes it, if there is none, or if counts
    differ; then the parquet is written as far as it goes, and the journal stays.
    """
    journal = folder / JOURNAL
    if not journal.is_dir():
        raise RunFolderError(
            "there is no journal to consolidate", where=str(folder), remedy="its parquet is all there is"
        )
    with lock_journal(journal):
        tables = journal_tables(folder)
        if join is not None:
            tables = join(tables)
        for name, table in tables.items():
            write_parquet(folder, name, table)
        counts = {name: table.num_rows for name, table in tables.items()}
        if expected is not None and counts != dict(expected):
            raise RunFolderError(
                f"rows were lost: {dict(expected)} were recorded, {counts} could be read back",
                where=str(journal),
                remedy="keep the folder: its journal holds whatever is left",
            )
        _discard(journal)
    return counts


def recover(folder: Path) -> dict[str, int]:
    """Make parquet of a run whose process died, wherever it died, and mark it `partial`; rows per table.

    Raises RunFolderError if another process still writes it, or if neither a journal nor its parquet is there.
    """
    if (folder / JOURNAL).is_dir():
        counts = consolidate(folder)
    else:
        counts = {table: read_parquet(folder / f"{table}.parquet", table).num_rows for table in TABLES.values()}
    shutil.rmtree(folder / _SPENT, ignore_errors=True)
    RunFolder(folder).update({}, Status.PARTIAL)
    return counts


def journal_tables(folder: Path) -> dict[str, pa.Table]:
    """The four tables as far as the journal has them, a torn last batch left out, TTFT summaries filled in.

    Only reads, so it may be used while the run goes on. Raises RunFolderError on a journal of another format version.
    """
    tables = {table: _read_stream(stream_path(folder / JOURNAL, table), table) for table in TABLES.values()}
    return {**tables, "passes": _with_ttft(tables["passes"], tables["requests"])}


def _read_stream(path: Path, table: str) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    columns = schema(table)
    if path.exists():
        try:
            stream = pa.ipc.open_stream(path.read_bytes())
            check_version(stream.schema, path)
            columns = stream.schema
            batches.extend(stream)
        except (pa.ArrowInvalid, OSError):
            pass  # a crash tore the last message off: what came before it is whole
    return upgraded(pa.Table.from_batches(batches, schema=columns), table).cast(schema(table))


def _with_ttft(passes: pa.Table, requests: pa.Table) -> pa.Table:
    """Passes with the TTFT (from sent) summaries of their ok requests; null where there is none."""
    ttfts: dict[tuple[object, ...], list[float]] = {}
    for row in requests.select([*_PASS_KEY, "outcome", "ttft_ms"]).to_pylist():
        if row["outcome"] == Outcome.OK and row["ttft_ms"] is not None:
            ttfts.setdefault(tuple(row[name] for name in _PASS_KEY), []).append(row["ttft_ms"])
    rows = []
    for row in passes.to_pylist():
        seen = ttfts.get(tuple(row[name] for name in _PASS_KEY), [])
        summary = {"ttft_ms_p50": percentile(seen, 50), "ttft_ms_mean": mean(seen), "ttft_ms_p99": percentile(seen, 99)}
        rows.append({**row, **summary})
    return pa.Table.from_pylist(rows, schema=schema("passes"))


def _discard(journal: Path) -> None:
    """One rename takes the journal out of use: half of it, left by a crash while deleting, would pass for the whole."""
    spent = journal.with_name(_SPENT)
    shutil.rmtree(spent, ignore_errors=True)
    journal.rename(spent)
    shutil.rmtree(spent)
