"""What the servers did during a replay: queues as sampled, bandwidth by windows."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from harness.analysis.timelines import Timeline, timelines
from harness.records import SCHEMAS, Run
from tests.fakes.runs import FakePass, fake_run

SECOND = 1_000_000_000
BEGIN_S, SPAN_S = 5, 40


def sampled(samples: Iterable[tuple[float, str, str, str, float]]) -> Run:
    """A replay of 40 s with these samples: s after its first request, source, instance, name, value."""
    columns = {"done_ns": (BEGIN_S + SPAN_S) * SECOND}
    run = fake_run([FakePass("valkey-2", [100.0] * SPAN_S, columns=columns)])
    rows: list[dict[str, Any]] = [
        {
            "arm": "valkey-2",
            "repeat": 0,
            "t_ns": int((BEGIN_S + at) * SECOND),
            "source": source,
            "instance": instance,
            "name": name,
            "value": value,
        }
        for at, source, instance, name, value in samples
    ]
    return replace(run, samples=pa.Table.from_pylist(rows, schema=SCHEMAS["samples"]))


def lines(run: Run, of: str) -> dict[str, Timeline]:
    """The timelines of one kind by name."""
    return {line.name: line for line in timelines(run) if line.of == of}


def test_bandwidth_is_a_mean_over_windows() -> None:
    """A server that sends in bursts has the rate of the bursts and the rests together, an instance a line."""
    bursts = [
        (at / 2, "valkey", f"valkey-{number}", "bytes_out", 1e6 * number * (1 + at // 4))
        for number in (1, 2)
        for at in range(-4, 2 * SPAN_S + 4)
    ]
    found = lines(sampled(bursts), "bandwidth")
    for number in (1, 2):
        line = found[f"valkey-{number}"]
        assert line.t_s[0] == 1.0
        assert len(line.values) == SPAN_S / 2
        assert line.values == pytest.approx([number * 0.5e6] * len(line.values))


def test_a_counter_that_begins_anew_leaves_a_gap() -> None:
    """The window in which an instance was restarted has no rate, and none is below zero; the others keep theirs."""
    counts = [(float(at), "valkey", "valkey-0", "bytes_out", 1e6 * (at % 21)) for at in range(SPAN_S + 1)]
    line = lines(sampled(counts), "bandwidth")["valkey-0"]
    assert line.values == pytest.approx([1e6] * len(line.values))
    assert len(line.values) == SPAN_S / 2 - 1


def test_what_is_not_finite_is_left_out() -> None:
    """A sample that is no number is no sample."""
    counts = [
        (float(at), "valkey", "v", "bytes_out", float("nan") if at == 9 else 1e6 * at) for at in range(SPAN_S + 1)
    ]
    gauges = [
        (float(at), "vllm", "v", "vllm:num_requests_waiting", float("inf") if at == 9 else 2.0) for at in range(20)
    ]
    run = sampled([*counts, *gauges])
    assert lines(run, "bandwidth")["v"].values == pytest.approx([1e6] * (SPAN_S // 2))
    assert lines(run, "requests")["waiting"].values == (2.0,) * 19
