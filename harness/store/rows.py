"""Records as rows of the tables in contract.md: one function a table. None stays null."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from harness.records import SCHEMA_VERSION, SCHEMAS, LoadEvent, PassRecord, RequestRecord, ServerSample
from harness.records.latency import latencies

Record = RequestRecord | LoadEvent | ServerSample | PassRecord
Row = dict[str, Any]

TABLES: dict[type, str] = {RequestRecord: "requests", LoadEvent: "loads", ServerSample: "samples", PassRecord: "passes"}
"""The table a record belongs to."""


def schema(table: str) -> pa.Schema:
    """The columns of `table`, with `schema_version` in the metadata."""
    return SCHEMAS[table].with_metadata({"schema_version": str(SCHEMA_VERSION)})


def batch(table: str, records: Sequence[Record], run_id: str) -> pa.RecordBatch:
    """`records`, all of one table, as one Arrow batch: as many rows, in the same order."""
    return pa.RecordBatch.from_pylist([_row(record, run_id) for record in records], schema=schema(table))


def _row(record: Record, run_id: str) -> Row:
    match record:
        case RequestRecord():
            return _request_row(record)
        case LoadEvent():
            return {**record._asdict(), "run_id": run_id}
        case ServerSample():
            return {**asdict(record), "run_id": run_id, "labels": sorted(record.labels.items())}
        case PassRecord():
            return _pass_row(record, run_id)


def _request_row(record: RequestRecord) -> Row:
    """Facts as they are, latencies derived here and nowhere else; lists are null where nothing arrived."""
    derived = latencies(record)
    cell = record.cell
    facts = {name: getattr(record, name) for name in record.__dataclass_fields__ if name != "cell"}
    return {
        **facts,
        **asdict(derived),
        "run_id": cell.run_id,
        "experiment": cell.experiment,
        "arm": cell.arm,
        "workload": cell.workload,
        "pass": cell.pass_name,
        "repeat": cell.repeat,
        "t0_unix_ns": cell.t0_unix_ns,
        "request_id": record.request_id,
        "outcome": str(record.outcome),
        "chunk_ns": record.chunk_ns or None,
        "itl_ms": derived.itl_ms or None,
    }


def _pass_row(record: PassRecord, run_id: str) -> Row:
    """Without the TTFT columns: these are filled when the requests of the pass are all at hand."""
    row = asdict(record)
    return {**row, **row.pop("counters"), "run_id": run_id, "pass": row.pop("pass_name")}
