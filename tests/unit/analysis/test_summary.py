"""The summary and its JSON."""

import json
from pathlib import Path

from harness.analysis import summarise, to_json
from tests.fakes.runs import FakePass, fake_run

CLIMBING = [float(ms) for ms in range(100, 400)]


def test_caveats_travel_with_their_numbers() -> None:
    """An unstable arm's p50 carries that it is; the steady arm's does not; both carry what concerns the run."""
    run = fake_run([FakePass("recompute", [50.0] * 300), FakePass("valkey-1", CLIMBING)])
    carried = {
        f.by["arm"]: {caveat.kind for caveat in f.caveats} for f in summarise(run, 20).findings if f.name == "ttft_p50"
    }
    assert carried == {"recompute": {"one_repeat"}, "valkey-1": {"one_repeat", "unstable"}}


def test_json_is_json() -> None:
    """summary.json has no NaN or infinity, and holds every finding, caveat and fact."""
    run = fake_run(
        [FakePass("recompute", CLIMBING), FakePass("valkey-1", [None])], run_id="r1", versions={"vllm": "0.31.0"}
    )
    summary = summarise(run, 20)
    document = to_json(summary)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len(document["findings"]) == len(summary.findings)
    assert len(document["caveats"]) == len(summary.scoped_caveats)
    assert document["facts"] == {"experiment": "fake", "run_id": "r1", "status": "complete", "vllm": "0.31.0"}
    assert document["verdict"]["word"] == summary.verdict.word


def test_same_run_same_summary() -> None:
    """A report made again from the parquet says the same."""
    run = fake_run([FakePass("recompute", CLIMBING), FakePass("valkey-4", CLIMBING[::-1])])
    assert summarise(run, 20) == summarise(run, 20)


def test_bare_meta() -> None:
    """A run.json that holds nothing yet still gives a summary, with its caveats."""
    summary = summarise(fake_run([FakePass("a", [1.0])], planned={}, state_proofs=[], spec={}, status=None), 20)
    assert summary.verdict.word == "undecided"
    assert {caveat.kind for caveat in summary.caveats} >= {"one_repeat", "state_not_checked"}


def test_every_number_and_caveat_is_defined() -> None:
    """docs/method.md names every finding and every kind of caveat that a run can have."""
    method = (Path(__file__).parents[3] / "docs" / "method.md").read_text()
    counters = dict.fromkeys(("prefix_cache_hits", "external_prefix_cache_hits", "prompt_tokens_local_compute"), 1)
    counters |= {"prompt_tokens_local_cache_hit": 0, "prompt_tokens_external_kv_transfer": 0}
    counters |= {"valkey_get_calls": 1, "valkey_bytes_out": 1}
    run = fake_run(
        [
            FakePass("recompute", [*CLIMBING, None], counters=counters, send_lag_ms=50.0),
            FakePass("valkey-1", CLIMBING, counters=counters, prompt_tokens=7),
            FakePass("recompute", [1.0], name="first"),
        ],
        probe={"prefill_tokens_per_s": 1.0, "kv_bytes_per_token": 1, "bstar_bytes_per_s": 1.0},
        arms={"valkey-1": {"link_bytes_per_s": 1.0, "instances": 1, "rho": 1.0}},
        planned={"valkey-1/trace/replay/0": 1},
        status="partial",
        state_proofs=[
            {"arm": "host", "workload": "trace", "repeat": 0, "kind": "cold", "proved": False, "detail": "3 tokens"}
        ],
    )
    summary = summarise(run, 20)
    kinds = {caveat.kind for caveat in summary.caveats}
    assert len(kinds) == 11
    for name in {finding.name for finding in summary.findings} | kinds:
        assert f"`{name}`" in method or f"`{name.removesuffix('_2').removesuffix('_3')}" in method, name
