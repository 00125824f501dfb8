"""`kvreplay run`, as a user types it: everything the contract says of a run folder, from a real run."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.records import SCHEMA_VERSION, SCHEMAS
from harness.store import open_run
from tests.live.conftest import CONFIG, Kvreplay, read_json, rows, total
from tests.live.predicted import predicted_one_for_one

pytestmark = pytest.mark.usefixtures("alone")

ARMS = ("recompute", "slow")  # the link of the second carries half of what the trace asks of it
DOCUMENTS, HIT_TOKENS = 8, 512


@pytest.fixture(scope="module")
def folder(alone: None, kvreplay: Kvreplay, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one run of two arms and both workloads."""
    results = tmp_path_factory.mktemp("results")
    arms = [word for arm in ARMS for word in ("--arm", arm)]
    out = kvreplay("run", str(CONFIG), *arms, "--out", str(results))
    assert kvreplay.survivors() == []
    (path,) = (results / "small").iterdir()
    assert out.rstrip().endswith(str(path))
    return path


@pytest.fixture(scope="module")
def meta(folder: Path) -> dict[str, Any]:
    """Its run.json."""
    return read_json(folder / "run.json")


def test_every_file_of_the_contract_is_there(folder: Path, meta: dict[str, Any]) -> None:
    """Parquet with the contract's columns and a schema version, reports, and every service's log."""
    assert meta["status"] == "complete"
    for name, schema in SCHEMAS.items():
        found = pq.read_schema(folder / f"{name}.parquet")
        assert found.names == schema.names
        assert found.metadata[b"schema_version"] == str(SCHEMA_VERSION).encode()
    for name in ("summary.json", "report.html", "report.md", "logs/recompute/vllm.log", "logs/slow/link.log"):
        assert (folder / name).exists()
    for name in ("vllm.log", "lmcache.log", "valkey-0.log"):
        assert (folder / "logs" / "slow" / name).stat().st_size > 0
    assert not (folder / "journal").exists()


def test_rows_in_are_rows_planned_and_all_are_ok(folder: Path, meta: dict[str, Any]) -> None:
    """One row per planned request of every arm, workload, pass and repeat."""
    requests = open_run(folder).requests.to_pylist()
    counted: dict[str, int] = {}
    for row in requests:
        key = f"{row['arm']}/{row['workload']}/{row['pass']}/{row['repeat']}"
        counted[key] = counted.get(key, 0) + 1
    assert counted == meta["planned"]
    assert {row["outcome"] for row in requests} == {"ok"}
    assert len({(row["arm"], row["request_id"]) for row in requests}) == len(requests)
    assert {row["arm"] for row in requests if row["workload"] == "touch"} == {"slow"}, "LMCache's memory"


def test_the_server_counted_the_tokens_that_were_planned(folder: Path) -> None:
    """Prompts go as ids, so lengths are exact, the answer's too."""
    for row in open_run(folder).requests.to_pylist():
        assert row["prompt_tokens"] == row["prompt_tokens_planned"]
        assert row["completion_tokens"] == row["max_tokens"]


def test_every_prompt_token_of_a_pass_is_accounted_for(folder: Path) -> None:
    """prompt_tokens = computed + found in the engine + received from LMCache, exactly."""
    run = open_run(folder)
    passes = run.passes.to_pylist()
    assert len(passes) == 8
    for one in passes:
        where = {name: one[name] for name in ("arm", "workload", "pass", "repeat")}
        prompt = total([row["prompt_tokens"] for row in rows(run.requests, **where)])
        sources = ("local_compute", "local_cache_hit", "external_kv_transfer")
        assert prompt == total([one[f"prompt_tokens_{source}"] for source in sources])


def test_cyclic_documents_never_hit_an_lru_cache_that_holds_half_of_them(folder: Path) -> None:
    """vLLM alone: exactly no hit in the second pass; in reverse the last documents hit, the first do not."""
    run = open_run(folder)
    (again,) = rows(run.passes, arm="recompute", **{"pass": "again"})
    assert again["prefix_cache_hits"] == 0
    reverse = sorted(rows(run.requests, arm="recompute", **{"pass": "reverse"}), key=lambda row: row["seq"])
    cached = [row["cached_tokens"] for row in reverse]
    assert cached[:3] == [HIT_TOKENS] * 3
    assert cached[-3:] == [0] * 3


def test_behind_the_engine_every_document_is_served_in_the_second_pass(folder: Path) -> None:
    """With Valkey each of them hits whole chunks, all of them external, as an infinite cache would."""
    run = open_run(folder)
    again = rows(run.requests, arm="slow", **{"pass": "again"})
    assert [row["external_cached_tokens"] for row in again] == [HIT_TOKENS] * DOCUMENTS
    assert [row["predicted_cached_tokens"] for row in again] == [HIT_TOKENS] * DOCUMENTS
    (counters,) = rows(run.passes, arm="slow", **{"pass": "again"})
    assert counters["external_prefix_cache_hits"] == HIT_TOKENS * DOCUMENTS
    assert counters["valkey_get_calls"] == DOCUMENTS * HIT_TOKENS // 256


def test_cached_tokens_were_predicted_one_for_one(folder: Path) -> None:
    """Blocks of 128: vLLM alone and with a Valkey, every request's tokens of each cache; test_prediction has others."""
    predicted_one_for_one(open_run(folder))


def test_hits_of_the_trace_were_predicted_within_two_percent(folder: Path) -> None:
    """Not exact by promise: in an open loop it matters who comes first, who ends first and when a store is done."""
    run = open_run(folder)
    predicted, measured = (
        total([row["cached_tokens"] for row in rows(table, arm="slow", **{"pass": "replay"})])
        for table in (run.predictions, run.requests)
    )
    assert predicted == pytest.approx(measured, rel=0.02)
    assert measured > 0


def test_one_valkey_gives_the_answers_that_computing_gives(folder: Path) -> None:
    """KV is right, not only fast: the same documents and questions, the same tokens, different for each of them."""
    run = open_run(folder)
    computed, loaded = (
        {row["seq"]: row["output_text"] for row in rows(run.requests, arm=arm, workload="docs")} for arm in ARMS
    )
    assert len(computed) == len(loaded) == 3 * DOCUMENTS
    assert len(set(computed.values())) == 3 * DOCUMENTS
    # bfloat16: an answer whose best two tokens are within rounding may tip; a wrong KV changes nearly all of them
    assert sum(computed[seq] == loaded[seq] for seq in computed) >= 0.75 * len(computed)


def test_loads_are_joined_to_the_requests_that_caused_them(folder: Path) -> None:
    """LMCache's log repeats the client's id: each load of the trace has its request, and its time."""
    run = open_run(folder)
    replayed = rows(run.requests, arm="slow", **{"pass": "replay"})
    loads = {row["request_id"]: row for row in rows(run.loads, arm="slow", kind="prefetch")}
    for row in replayed:
        if row["external_cached_tokens"]:
            assert loads[row["request_id"]]["hit_tokens"] == HIT_TOKENS
            assert row["loaded_l2_keys"] == HIT_TOKENS // 256
            assert row["load_wait_ms"] + row["load_ms"] >= loads[row["request_id"]]["cost_ms"]
    assert sum(row["load_ms"] is not None for row in replayed) >= len(replayed) // 2


PARTS = ("queue_ms", "load_wait_ms", "load_ms", "recompute_ms", "delivery_ms", "unexplained_ms")


def test_every_ttft_is_explained(folder: Path) -> None:
    """Each request that was served has its lookup or a reason, and parts that add up to its TTFT; little is left."""
    served = [row for row in open_run(folder).requests.to_pylist() if row["outcome"] == "ok"]
    for row in served:
        assert row["lookup"] not in {None, "no_log", "not_served"}
        assert row["server_queue_ms"] is not None
        assert sum(row[name] or 0.0 for name in PARTS) == pytest.approx(row["ttft_ms"])
    for arm in ARMS:
        left = sorted(abs(row["unexplained_ms"]) / row["ttft_ms"] for row in served if row["arm"] == arm)
        assert left[len(left) // 2] < 0.10


def test_the_engine_names_each_request_as_the_client_did(folder: Path) -> None:
    """Client and response: one id, which LMCache's log repeats (above)."""
    for row in open_run(folder).requests.to_pylist():
        assert row["response_id"] == f"cmpl-{row['request_id']}"


def test_tokens_are_counted_alike_three_ways(folder: Path) -> None:
    """External tokens by the client's usage, the engine's counters and LMCache's log, in every pass of every arm."""
    kinds = {caveat["kind"] for caveat in read_json(folder / "summary.json")["caveats"]}
    assert not kinds & {"tokens_three_ways", "lookups_not_told", "lmcache_log", "log_of_another_run", "cut_lines"}


def test_behind_a_slow_link_the_engine_idles_while_requests_wait(folder: Path) -> None:
    """Waiting for other loads is the largest part of TTFT, and the engine does useful work in less than 0.4 of it."""
    replayed = rows(open_run(folder).requests, arm="slow", **{"pass": "replay"})
    parts = {name: sum(row[name] or 0.0 for row in replayed) for name in PARTS}
    assert max(parts, key=lambda name: parts[name]) == "load_wait_ms", parts
    (busy,) = [
        finding["value"]
        for finding in read_json(folder / "summary.json")["findings"]
        if finding["name"] == "engine_busy_share" and finding["by"].get("arm") == "slow"
        if finding["by"].get("pass") == "replay"
    ]
    assert 0 < busy < 0.4


def test_every_server_was_sampled(folder: Path) -> None:
    """vLLM, LMCache, each Valkey and the host have samples within the run."""
    samples = open_run(folder).samples
    seen = set(zip(samples["source"].to_pylist(), samples["instance"].to_pylist(), strict=True))
    assert {("vllm", "vllm"), ("lmcache", "lmcache"), ("valkey", "valkey-0")} <= seen
    assert {instance for source, instance in seen if source == "host"} >= {"vllm", "lmcache", "valkey-0", "link"}


def test_cold_and_warm_were_proved(meta: dict[str, Any]) -> None:
    """Each arm and workload began cold, and the trace warm, by the server's own count."""
    proofs = {(proof["arm"], proof["workload"], proof["kind"]): proof["proved"] for proof in meta["state_proofs"]}
    expected = {(arm, workload, "cold") for arm in ARMS for workload in ("docs", "trace")}
    assert set(proofs) == expected | {(arm, "trace", "warm") for arm in ARMS}
    assert all(proofs.values()), meta["state_proofs"]


def test_the_summary_has_a_verdict_and_its_numbers(folder: Path, meta: dict[str, Any]) -> None:
    """The machine's R, s and B*, both arms' figures, and one sentence."""
    summary = read_json(folder / "summary.json")
    names = {finding["name"] for finding in summary["findings"]}
    assert {"prefill_tokens_per_s", "kv_bytes_per_token", "bstar_bytes_per_s", "ttft_p99", "rho"} <= names
    assert summary["verdict"]["word"] in {"on", "on_with_sharding", "off", "undecided"}
    assert meta["probe"]["kv_bytes_per_token"] == 2048
    assert meta["arms"]["slow"]["rho"] == pytest.approx(2)
