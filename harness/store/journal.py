"""The journal: records reach the disk while the run goes on, so that a crash loses at most the last batch.

One Arrow IPC stream a table in `<run folder>/journal/`. Parquet has no readable footer until it is closed; a stream is
readable up to its last whole batch. What was flushed survives the death of the process (not of the machine: there is no
fsync on the way, since it would hold up the loop that sends requests). `consolidate` makes the parquet of it.
"""

import fcntl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Self

import pyarrow as pa

from harness.errors import RunFolderError
from harness.store.rows import TABLES, Record, batch, schema

JOURNAL = "journal"
"""The journal's folder inside a run folder."""


class Journal:
    """Append-only writer of one run's records; a context manager. For one thread, and one journal a run folder.

    A table is written out when `rows_per_batch` of its records are waiting, and whenever `flush` is called: call it
    about once a second. Raises RunFolderError where there is a journal already.
    """

    def __init__(self, folder: Path, run_id: str, *, rows_per_batch: int = 512) -> None:
        self._run_id = run_id
        self._rows_per_batch = rows_per_batch
        self._waiting: dict[str, list[Record]] = {table: [] for table in TABLES.values()}
        self._written = dict.fromkeys(TABLES.values(), 0)
        path = folder / JOURNAL
        try:
            path.mkdir()
        except FileExistsError as error:
            raise RunFolderError(
                "this run folder has a journal already", where=str(path), remedy="start a new run, or recover this one"
            ) from error
        self._lock = lock_journal(path)
        self._files = {table: pa.OSFile(str(stream_path(path, table)), "wb") for table in TABLES.values()}
        # pyarrow imports pandas at its first conversion, which can take seconds: here, so that no send waits for it.
        batch("requests", [], run_id)
        self._streams = {table: pa.ipc.new_stream(file, schema(table)) for table, file in self._files.items()}

    def append(self, *records: Record) -> None:
        """Take records, in order; cheap until a batch is full."""
        for record in records:
            table = TABLES[type(record)]
            self._waiting[table].append(record)
            if len(self._waiting[table]) >= self._rows_per_batch:
                self._write(table)

    def extend(self, records: Iterable[Record]) -> None:
        """Take every record of an iterable, in order."""
        self.append(*records)

    def flush(self) -> None:
        """Hand every waiting record to the operating system: a crash of this process loses none of them any more."""
        for table in self._waiting:
            self._write(table)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many records each table has been given, written or waiting."""
        return {table: self._written[table] + len(waiting) for table, waiting in self._waiting.items()}

    def close(self) -> None:
        """Flush and close; further calls do nothing."""
        if self._lock.closed:
            return
        try:
            self.flush()
        finally:
            for stream in self._streams.values():
                stream.close()
            for file in (*self._files.values(), self._lock):
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, table: str) -> None:
        waiting = self._waiting[table]
        if waiting:
            self._streams[table].write_batch(batch(table, waiting, self._run_id))
            self._written[table] += len(waiting)
            self._waiting[table] = []


def stream_path(journal: Path, table: str) -> Path:
    """The stream of one table inside a journal's folder."""
    return journal / f"{table}.arrows"


def lock_journal(journal: Path) -> IO[bytes]:
    """Hold the journal until the file returned is closed or its process dies; RunFolderError if another holds it."""
    file = (journal / "lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise RunFolderError(
            "another process is still writing this run", where=str(journal.parent), remedy="wait until it has ended"
        ) from error
    return file
