"""harness.store: journal, consolidation, recovery and reading back."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import RunFolderError
from harness.records import (
    SCHEMA_VERSION,
    SCHEMAS,
    Cell,
    LoadEvent,
    PassCounters,
    PassRecord,
    RequestRecord,
    ServerSample,
)
from harness.records.request import Outcome
from harness.store import Journal, RunFolder, Status, consolidate, open_run, recover
from harness.store.journal import stream_path
from harness.store.rows import batch
from harness.store.versions import OLDEST_VERSION
from tests.fakes.records import CELL, load_events, pass_records, request_records, server_samples

PASS = PassRecord(CELL.arm, CELL.workload, "first", 0, 4, 1.5, PassCounters(valkey_get_calls=7))
WARMUP = Cell("r1", "lab", CELL.arm, CELL.workload, "warmup", 0, "a0", 5, CELL.t0_unix_ns)
AGAIN = PassRecord(CELL.arm, CELL.workload, "again", 0, 4, 1.5, PassCounters())


def _request(seq: int, **fields: Any) -> RequestRecord:
    plain = RequestRecord(CELL, seq, seq, "s", 8, 4, due_ns=0, outcome=Outcome.OK)
    return replace(plain, **fields)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run folder that has just been made."""
    return RunFolder.create(tmp_path, "lab", "r1", "20261129T201500Z")


@pytest.fixture
def complete(folder: RunFolder) -> RunFolder:
    """A run that ended well, with three requests and a pass."""
    with Journal(folder.path, "r1") as journal:
        journal.append(PASS, *(_request(seq) for seq in range(3)))
    consolidate(folder.path, expected=journal.counts)
    folder.update({}, Status.COMPLETE)
    return folder


@settings(deadline=None, max_examples=8)
@given(
    st.lists(request_records() | load_events() | server_samples() | pass_records(), max_size=12),
    st.integers(1, 4),
    st.data(),
)
def test_rows_in_are_rows_out(records: list[Any], rows_per_batch: int, data: st.DataObject) -> None:
    """Whatever the batches, the parquet has every record once, in order, as the encoder writes it."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        with Journal(path, "r1", rows_per_batch=rows_per_batch) as journal:
            for record in records:
                journal.append(record)
                if data.draw(st.booleans()):
                    journal.flush()
        counts = consolidate(path, expected=journal.counts)
        assert sum(counts.values()) == len(records)
        kinds = {"requests": RequestRecord, "loads": LoadEvent, "samples": ServerSample}
        for table, kind in kinds.items():
            wanted = [record for record in records if isinstance(record, kind)]
            found = pq.read_table(path / f"{table}.parquet")
            assert found.schema.equals(SCHEMAS[table])
            assert found.to_pylist() == batch(table, wanted, "r1").to_pylist()
        assert not (path / "journal").exists()


@pytest.fixture(scope="module")
def journal_of_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose journal has three batches of two requests, as a killed process leaves it."""
    folder = RunFolder.create(tmp_path_factory.mktemp("results"), "lab", "r1", "20261129T201500Z")
    journal = Journal(folder.path, "r1", rows_per_batch=2)
    journal.append(*(_request(seq) for seq in range(6)))
    copy = folder.path.with_name("killed")
    shutil.copytree(folder.path, copy)
    journal.close()
    yield copy
    shutil.rmtree(copy)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_a_torn_journal_gives_all_whole_batches(journal_of_three: Path, data: st.DataObject) -> None:
    """Cut the stream at any byte: what is read is a prefix in whole batches, and never an error."""
    stream = stream_path(journal_of_three / "journal", "requests")
    whole = stream.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    try:
        stream.write_bytes(whole[:cut])
        seqs = open_run(journal_of_three, allow_incomplete=True).requests["seq"].to_pylist()
    finally:
        stream.write_bytes(whole)
    assert seqs == list(range(len(seqs)))
    assert len(seqs) % 2 == 0
    assert len(seqs) == 6 or cut < len(whole)


def test_recovering_a_killed_run_makes_it_partial(journal_of_three: Path, tmp_path: Path) -> None:
    """Recovery writes the parquet and says `partial`; doing it again changes nothing."""
    path = tmp_path / "killed"
    shutil.copytree(journal_of_three, path)
    assert recover(path) == {"requests": 6, "loads": 0, "samples": 0, "passes": 0}
    assert recover(path)["requests"] == 6
    run = open_run(path, allow_incomplete=True)
    assert (run.meta["status"], run.requests.num_rows) == ("partial", 6)


def test_dying_while_the_journal_is_deleted_loses_nothing(journal_of_three: Path, tmp_path: Path) -> None:
    """The parquet is whole before the journal goes, and half a journal is never taken for the whole."""
    path = tmp_path / "killed"
    shutil.copytree(journal_of_three, path)
    consolidate(path)
    (path / "journal.done").mkdir()
    (path / "journal.done" / "requests.arrows").touch()
    assert recover(path)["requests"] == 6
    assert not (path / "journal.done").exists()


def test_a_pass_summarises_its_own_ok_requests(folder: RunFolder) -> None:
    """TTFT median, mean and p99 come from the ok requests of the pass; others, and other passes, do not count."""
    ttft = [_request(seq, sent_ns=0, first_token_ns=ms * 10**6) for seq, ms in enumerate((10, 20, 60))]
    failed = _request(3, sent_ns=0, first_token_ns=10**12, outcome=Outcome.TRUNCATED)
    warmup = _request(4, sent_ns=0, first_token_ns=10**12, cell=WARMUP)
    with Journal(folder.path, "r1") as journal:
        journal.append(PASS, AGAIN, *ttft, failed, warmup)
    consolidate(folder.path)
    first, again = pq.read_table(folder.path / "passes.parquet").to_pylist()
    assert (first["ttft_ms_p50"], first["ttft_ms_mean"]) == (20.0, 30.0)
    assert first["ttft_ms_p99"] == pytest.approx(59.2)
    assert (first["requests"], first["valkey_get_calls"], first["prefix_cache_hits"]) == (4, 7, None)
    assert again["ttft_ms_p50"] is again["ttft_ms_mean"] is again["ttft_ms_p99"] is None


def test_rows_that_cannot_be_read_back_are_noticed(folder: RunFolder) -> None:
    """If fewer rows come out than went in, the run says so and keeps its journal."""
    with Journal(folder.path, "r1") as journal:
        journal.append(_request(0))
    with pytest.raises(RunFolderError, match="rows were lost"):
        consolidate(folder.path, expected={**journal.counts, "requests": 2})
    assert (folder.path / "journal").is_dir()


def test_a_journal_is_not_taken_from_a_living_writer(folder: RunFolder) -> None:
    """While one process writes a run, nobody consolidates it, and nobody starts a second journal in it."""
    with Journal(folder.path, "r1") as journal:
        journal.append(_request(0))
        with pytest.raises(RunFolderError, match="still writing"):
            recover(folder.path)
        with pytest.raises(RunFolderError, match="already"):
            Journal(folder.path, "r1")
        journal.flush()
        assert open_run(folder.path, allow_incomplete=True).requests.num_rows == 1
    assert recover(folder.path)["requests"] == 1


def test_a_complete_run_opens_with_its_tables(complete: RunFolder) -> None:
    """Each table has the contract's columns, and its file says its format version."""
    run = open_run(complete.path)
    assert (run.meta["status"], run.requests.num_rows, run.passes.num_rows) == ("complete", 3, 1)
    for table in SCHEMAS:
        schema = pq.read_schema(complete.path / f"{table}.parquet")
        assert schema.names == SCHEMAS[table].names
        assert schema.metadata[b"schema_version"] == str(SCHEMA_VERSION).encode()


@pytest.mark.parametrize("status", ["running", "partial", "failed", None])
def test_an_incomplete_run_opens_only_on_request(complete: RunFolder, status: str | None) -> None:
    """Any status but `complete` is an error that names it and says how to open the run all the same."""
    complete.update({"status": status})
    with pytest.raises(RunFolderError) as caught:
        open_run(complete.path)
    assert repr(status) in caught.value.what
    assert "allow_incomplete" in caught.value.remedy
    assert open_run(complete.path, allow_incomplete=True).requests.num_rows == 3


def test_formats_newer_and_older_than_this_one_are_told_apart(complete: RunFolder) -> None:
    """A newer format asks for an upgrade, an older one for the version that wrote it, in run.json or in a table."""
    for version, word in ((SCHEMA_VERSION + 1, "newer"), (OLDEST_VERSION - 1, "older")):
        complete.update({"schema_version": version})
        with pytest.raises(RunFolderError, match=word):
            open_run(complete.path)
        complete.update({"schema_version": SCHEMA_VERSION})
        path = complete.path / "loads.parquet"
        table = pq.read_table(path)
        pq.write_table(table.replace_schema_metadata({"schema_version": str(version)}), path)
        with pytest.raises(RunFolderError, match=word) as caught:
            open_run(complete.path)
        assert caught.value.where == str(path)
        pq.write_table(table, path)
    complete.update({"schema_version": None})
    with pytest.raises(RunFolderError, match="not written by kvreplay"):
        open_run(complete.path)


_CAME_WITH = {
    2: {
        *("server_queue_ms", "server_prefill_ms", "lookup", "computed_tokens", "total_tokens", "rank", "pid"),
        *("loaded_keys", "loaded_l1_keys", "loaded_l2_keys", "loaded_bytes", "loaded_bytes_per_s"),
        *("load_wait_ms", "delivery_ms", "unexplained_ms"),
    },
    3: {"placement_slowdown", "response_id"},
}


@pytest.mark.parametrize("version", [1, 2])
def test_a_run_of_an_earlier_format_is_read(complete: RunFolder, version: int) -> None:
    """It lacked some columns: they are there and null, and all others are as they were written."""
    now = open_run(complete.path)
    later = {name for came, names in _CAME_WITH.items() if came > version for name in names}
    for name in ("requests", "loads"):
        path = complete.path / f"{name}.parquet"
        table = pq.read_table(path)
        first = table.drop_columns([one for one in table.column_names if one in later])
        pq.write_table(first.replace_schema_metadata({"schema_version": str(version)}), path)
    complete.update({"schema_version": version})
    then = open_run(complete.path)
    assert (then.requests.column_names, then.loads.column_names) == (now.requests.column_names, now.loads.column_names)
    assert then.requests["request_id"] == now.requests["request_id"]
    for name in then.requests.column_names:
        if name in later:
            assert then.requests[name].null_count == then.requests.num_rows == 3


def test_what_is_missing_or_broken_is_named(complete: RunFolder, tmp_path: Path) -> None:
    """No folder, no run.json, no table, or half a table: each error says which."""
    with pytest.raises(RunFolderError, match="no such run folder"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(RunFolderError, match=r"run\.json is missing"):
        open_run(tmp_path)
    path = complete.path / "samples.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(RunFolderError, match=r"cannot read samples\.parquet"):
        open_run(complete.path)
    path.unlink()
    with pytest.raises(RunFolderError, match=r"samples\.parquet is missing"):
        open_run(complete.path)
    pq.write_table(pq.read_table(complete.path / "loads.parquet"), path)
    with pytest.raises(RunFolderError, match="no column 't_ns'"):
        open_run(complete.path)
