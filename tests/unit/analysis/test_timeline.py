"""harness.analysis.timeline: an arm on one time axis."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from harness.analysis.timeline import came_from, timeline, to_json
from harness.errors import RunFolderError
from harness.records import SCHEMAS, Run
from harness.report.timeline import render_timeline
from tests.fakes.runs import FakePass, fake_run

S = 10**9
T0 = 1_800_000_000 * S


def _sample(t_s: float, of: str, instance: str, name: str, value: float, **labels: str) -> dict[str, Any]:
    own = {"source": of, "instance": instance, "name": name, "value": value, "labels": list(labels.items())}
    return {"run_id": "r", "arm": "valkey-1", "repeat": 0, "t_ns": round(t_s * S), **own}


def _run(samples: list[dict[str, Any]], loads: list[dict[str, Any]] | None = None) -> Run:
    run = fake_run([FakePass("valkey-1", [100.0] * 4)], probe={"prefill_tokens_per_s": 1000.0})
    rows = [
        {**row, "sent_ns": row["due_ns"], "done_ns": row["due_ns"] + S, "t0_unix_ns": T0}
        for row in run.requests.to_pylist()
    ]
    return replace(
        run,
        requests=pa.Table.from_pylist(rows, schema=SCHEMAS["requests"]),
        samples=pa.Table.from_pylist(samples, schema=SCHEMAS["samples"]),
        loads=pa.Table.from_pylist(loads or [], schema=SCHEMAS["loads"]),
    )


def _series(run: Run, name: str, instance: str | None = None) -> tuple[float | None, ...]:
    found = [s for s in timeline(run, "valkey-1").series if s.name == name and instance in {None, s.instance}]
    (one,) = found
    return one.values


def test_windows_begin_at_the_first_request() -> None:
    """Four requests a second apart, the last one a second long: four windows, each with one point."""
    line = timeline(_run([]), "valkey-1")
    assert (line.windows, line.window_s, line.zero_ns) == (4, 1.0, 5 * S)
    assert [(point.t_s, point.ttft_ms) for point in line.points] == [(float(at), 100.0) for at in range(4)]
    (span,) = line.passes
    assert (span.workload, span.pass_name, span.start_s, span.end_s) == ("trace", "replay", 0.0, 4.0)
    assert timeline(_run([]), "valkey-1", window_s=2.0).windows == 2


def test_bandwidth_and_useful_time_are_what_counters_gained() -> None:
    """Bytes a second of each instance, and computed tokens at R; where a counter began anew nothing is known."""
    by_source = "vllm:prompt_tokens_by_source_total"
    samples = [
        _sample(5 + at, "valkey", name, "bytes_out", value)
        for name, values in (("valkey-0", [0, 10, 30, 30, 30]), ("valkey-1", [9, 9, 1, 2, 3]))
        for at, value in enumerate(values)
    ]
    for at, tokens in enumerate([0, 500, 1000, 1000, 1250]):
        samples.append(_sample(5 + at, "vllm", "vllm", by_source, tokens, source="local_compute"))
        samples.append(_sample(5 + at, "vllm", "vllm", by_source, 9 * tokens, source="external_kv_transfer"))
    run = _run(samples)
    assert _series(run, "valkey_bytes_per_s", "valkey-0") == (10.0, 20.0, 0.0, 0.0)
    assert _series(run, "valkey_bytes_per_s", "valkey-1") == (0.0, None, 1.0, 1.0)
    assert _series(run, "engine_busy_share") == (0.5, 0.5, 0.0, 0.25)
    assert timeline(run, "valkey-1").resets == (("valkey valkey-1", 2.0),)


def test_what_runs_waits_and_loads_is_laid_over_the_same_windows() -> None:
    """Gauges by their last sample, a missing one as nothing; loads by the time they were on their way."""
    samples = [
        _sample(5.5, "vllm", "vllm", "vllm:num_requests_waiting", 3),
        _sample(6.5, "host", "vllm", "cpu_percent", 90),
    ]
    samples.append(_sample(6.5, "host", "vllm", "process_cpu_percent", 70, process="VLLM::Worker", pid="7"))
    load = {"arm": "valkey-1", "kind": "prefetch", "t_unix_ns": T0 + 7 * S, "cost_ms": 1500.0}
    run = _run(samples, [load])
    assert _series(run, "waiting") == (3.0, None, None, None)
    assert _series(run, "cpu_percent", "VLLM::Worker") == (None, 70.0, None, None)
    assert _series(run, "lookups_in_flight") == (0.5, 1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("source", "row"),
    [
        ("recomputed", {"cached_tokens": 0}),
        ("unknown", {"cached_tokens": None}),
        ("unknown", {"cached_tokens": 10, "local_cached_tokens": None, "external_cached_tokens": None}),
        ("gpu", {"cached_tokens": 10, "local_cached_tokens": 10, "external_cached_tokens": 0}),
        ("l2", {"loaded_l1_keys": 1, "loaded_l2_keys": 4}),
        ("l1", {"loaded_l1_keys": 5, "loaded_l2_keys": 0}),
        ("lmcache", {"loaded_l1_keys": float("nan"), "loaded_l2_keys": None}),
    ],
)
def test_a_point_says_where_its_prompt_came_from(source: str, row: dict[str, Any]) -> None:
    """By most of its cached tokens; unknown where nobody told."""
    external = {"cached_tokens": 10, "local_cached_tokens": 2, "external_cached_tokens": 8}
    assert came_from({**external, **row}) == source


def test_an_arm_that_is_not_there_is_named() -> None:
    """The error lists the arms that are."""
    with pytest.raises(RunFolderError) as caught:
        timeline(_run([]), "valkey-9")
    assert "valkey-9" in caught.value.what
    assert "valkey-1" in caught.value.remedy


def test_the_text_and_the_json_hold_it_all() -> None:
    """A row for each window with a dash for what is not known; JSON without a NaN."""
    run = _run([_sample(5.5, "vllm", "vllm", "vllm:num_requests_waiting", 3)])
    text = render_timeline(timeline(run, "valkey-1"))
    assert len(text.splitlines()) == 2 + 1 + 1 + 4
    assert text.splitlines()[3].split() == ["s", "waiting", "ttft", "p50", "ms", "sent"]
    assert text.splitlines()[-1].split()[:2] == ["3", "-"]
    document = json.loads(json.dumps(to_json(timeline(run, "valkey-1")), allow_nan=False))
    assert [point["came_from"] for point in document["points"]] == ["recomputed"] * 4
