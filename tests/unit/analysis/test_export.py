"""One arm's requests in other tools' formats."""

import ast
import importlib.util
import json
import math
from pathlib import Path

import pytest

from harness.analysis.export import aiperf_lines, cell_of, vllm_json
from harness.analysis.export_llmd import llmd_report
from harness.errors import HarnessError
from tests.fakes.runs import FakePass, fake_run

SECOND = 1_000_000_000
COLUMNS = {
    "sent_ns": 5 * SECOND,
    "headers_ns": 5 * SECOND + 1,
    "done_ns": 9 * SECOND,
    "t0_unix_ns": 10**18,
    "completion_tokens": 3,
    "e2el_ms": 4000.0,
    "tpot_ms": 7.5,
    "itl_ms": [5.0, 10.0],
    "output_text": "abc",
    "request_id": "kvr-1",
    "session": "s",
}
RUN = fake_run(
    [FakePass("host", [100.0, None, 300.0], columns=COLUMNS), FakePass("recompute", [1.0])],
    run_id="r1",
    utc="20261130T020000Z",
    plans={"trace/0": {"hash": "h", "rate_per_s": 2.5}},
)
CELL = ("host", "trace", "replay")


def test_vllm() -> None:
    """As `vllm bench serve` writes it: seconds, a list entry a planned request, a failed one has 0 and a reason."""
    document = vllm_json(RUN, CELL)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["num_prompts"], document["completed"], document["failed"]) == (3, 2, 1)
    assert document["ttfts"] == [0.1, 0.0, 0.3]
    assert document["itls"] == [[0.005, 0.01], [], [0.005, 0.01]]
    assert document["errors"] == ["", "timeout", ""]
    assert document["duration"] == 4
    assert document["request_throughput"] == 0.5
    assert (document["median_ttft_ms"], document["mean_tpot_ms"], document["median_itl_ms"]) == (200.0, 7.5, 7.5)
    assert document["request_rate"] == 2.5


def test_busiest_second() -> None:
    """As vLLM counts: tokens by the second in which they came, requests by all seconds in which they were under way."""
    run = fake_run([FakePass("host", [100.0] * 3, columns=COLUMNS | {"itl_ms": [5.0, 950.0, 10.0], "e2el_ms": 1070.0})])
    document = vllm_json(run, CELL)
    assert document["max_output_tokens_per_s"] == 6  # two of each in the first second, two in the next
    assert document["max_concurrent_requests"] == 3


def keys_of_vllm() -> set[str]:
    """The keys of the documents that the installed vLLM's `bench serve` writes, read in its source."""
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        pytest.skip("vllm is not installed")
    tree = ast.parse((Path(found.origin).parent / "benchmarks" / "serve.py").read_text())
    keys: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            target = ast.unparse(node.targets[0])
            if target == "result" and isinstance(node.value, ast.Dict):
                names = [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
                keys |= set(names) if "itls" in names else set()
            elif target.startswith("result_json['") and "ramp_up" not in target:
                keys.add(target.removeprefix("result_json['").removesuffix("']"))
    return keys


def test_vllm_has_every_key_that_vllm_writes() -> None:
    """A script that reads vLLM's result finds every key of it in ours."""
    expected = keys_of_vllm()
    assert {"request_throughput", "ttfts", "date"} <= expected
    assert expected <= vllm_json(RUN, CELL).keys()


def test_aiperf() -> None:
    """A record a request that was sent: times of day in ns, latencies in ms."""
    first, last = aiperf_lines(RUN, CELL)
    assert json.loads(json.dumps([first, last], allow_nan=False)) == [first, last]
    assert first["metadata"]["request_start_ns"] == 10**18 + 5 * SECOND
    assert first["metadata"]["x_request_id"] == "kvr-1"
    assert first["metrics"]["time_to_first_token"] == {"value": 100.0, "unit": "ms"}
    assert first["metrics"]["inter_chunk_latency"] == {"value": [5.0, 10.0], "unit": "ms"}
    assert first["error"] is None


def test_llm_d() -> None:
    """Report 0.2: aggregate statistics with units, the load, and nothing that was not measured."""
    report = llmd_report(RUN, CELL)
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    aggregate = report["results"]["request_performance"]["aggregate"]
    assert (aggregate["requests"]["total"], aggregate["requests"]["failures"]) == (3, 1)
    assert (
        aggregate["latency"]["time_to_first_token"]["p50"],
        aggregate["latency"]["time_to_first_token"]["units"],
    ) == (
        200.0,
        "ms",
    )
    assert aggregate["throughput"]["request_rate"] == {"units": "queries/s", "mean": 0.5}
    assert report["version"] == "0.2"
    assert report["scenario"]["load"]["standardized"]["rate_qps"] == 2.5


def test_nothing_succeeded() -> None:
    """A pass without one success is written too, without figures."""
    run = fake_run([FakePass("host", [None, None])])
    document = vllm_json(run, CELL)
    assert (document["completed"], document["p99_ttft_ms"], document["request_throughput"]) == (0, None, None)
    assert list(aiperf_lines(run, CELL)) == []
    assert "latency" in llmd_report(run, CELL)["results"]["request_performance"]["aggregate"]
    assert math.isfinite(document["duration"])


def test_which_requests() -> None:
    """The only arm, the only workload, the last pass; where that leaves a choice, the error lists it."""
    docs = fake_run([FakePass("host", [1.0], name=name) for name in ("first", "again")])
    assert cell_of(docs, None, None, None) == ("host", "trace", "again")
    assert cell_of(docs, "host", None, "first") == ("host", "trace", "first")
    with pytest.raises(HarnessError) as caught:
        cell_of(RUN, None, None, None)
    assert "host, recompute" in caught.value.remedy
    with pytest.raises(HarnessError, match="'valkey-9'"):
        cell_of(RUN, "valkey-9", None, None)
