"""harness.store.rows: records as table rows."""

from dataclasses import asdict

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.records import LoadEvent, PassRecord, RequestRecord, ServerSample
from harness.records.latency import latencies
from harness.store.rows import batch
from tests.fakes.records import CELL, load_events, pass_records, request_records, server_samples


@settings(deadline=None, max_examples=40)
@given(st.lists(request_records(), max_size=3))
def test_every_fact_of_a_request_comes_back(records: list[RequestRecord]) -> None:
    """A row holds each fact and each latency of its record, missing ones as null."""
    rows = batch("requests", records, "r1").to_pylist()
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        facts = {name: getattr(record, name) for name in record.__dataclass_fields__ if name != "cell"}
        derived = asdict(latencies(record))
        for name, value in {**facts, **derived}.items():
            seen = tuple(row[name] or ()) if name in {"chunk_ns", "itl_ms"} else row[name]
            assert seen == value, name
        assert (row["pass"], row["run_id"], row["t0_unix_ns"]) == ("first", "r1", CELL.t0_unix_ns)
        assert row["request_id"] == f"kvr-r1a1-{record.seq}"


@settings(deadline=None, max_examples=40)
@given(st.lists(load_events(), max_size=3))
def test_every_field_of_an_event_comes_back(events: list[LoadEvent]) -> None:
    """An event is its row without the run's id."""
    rows = batch("loads", events, "r1").to_pylist()
    assert [row.pop("run_id") for row in rows] == ["r1"] * len(events)
    assert [LoadEvent(**row) for row in rows] == events


@settings(deadline=None, max_examples=40)
@given(st.lists(server_samples(), max_size=3))
def test_every_field_of_a_sample_comes_back(samples: list[ServerSample]) -> None:
    """A sample is its row without the run's id, labels included."""
    rows = batch("samples", samples, "r1").to_pylist()
    assert [row.pop("run_id") for row in rows] == ["r1"] * len(samples)
    assert [ServerSample(**{**row, "labels": dict(row["labels"])}) for row in rows] == samples


@settings(deadline=None, max_examples=40)
@given(st.lists(pass_records(), max_size=3))
def test_every_counter_of_a_pass_comes_back(passes: list[PassRecord]) -> None:
    """A pass's counters are columns, a missing one null; its TTFT columns are null until the requests are known."""
    rows = batch("passes", passes, "r1").to_pylist()
    assert len(rows) == len(passes)
    for row, record in zip(rows, passes, strict=True):
        assert {name: row[name] for name in asdict(record.counters)} == asdict(record.counters)
        assert (row["pass"], row["requests"], row["duration_s"]) == (
            record.pass_name,
            record.requests,
            record.duration_s,
        )
        assert row["ttft_ms_p50"] is row["ttft_ms_mean"] is row["ttft_ms_p99"] is None
