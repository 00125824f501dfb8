"""What was predicted of an arm, against what its server then said: tokens of each cache and keys of each Valkey."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from harness.experiment.prepare import prepare
from harness.experiment.warm_up import warm_up_plan
from harness.records import Run
from harness.sim.keys import CHUNK_KEYS
from harness.store import open_run
from tests.live.conftest import CONFIG, ROOT, Kvreplay, read_json, rows
from tests.live.predicted import cached, predicted_one_for_one

pytestmark = pytest.mark.usefixtures("alone")

_INPROCESS = Path(__file__).parent / "inprocess.yaml"
_CHUNK = 256


@pytest.fixture(
    scope="module",
    params=[
        ((64, 1984), ("recompute", "async")),
        ((128, 2816), ("sync",)),
    ],
    ids=["blocks-of-64", "blocks-of-128"],
)
def run(
    request: pytest.FixtureRequest, alone: None, kvreplay: Kvreplay, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Run, Path, tuple[str, ...]]:
    """A run of vLLM and of LMCache inside it with blocks and a KV cache of these sizes: its tables, config and arms.

    LMCache's server beside vLLM, and vLLM alone with blocks of 128, are in test_run.
    """
    (block, capacity), arms = request.param
    here = tmp_path_factory.mktemp("prediction")
    document = yaml.safe_load(CONFIG.read_text())
    document["engine"] |= {"block_size": block, "kv_cache_tokens": capacity}
    document["arms"] += yaml.safe_load(_INPROCESS.read_text())["arms"]
    document["workloads"] = [one for one in document["workloads"] if one["name"] == "docs"]
    for arm in document["arms"]:
        arm.get("valkey", {}).pop("link", None)
    config = here / "sizes.yaml"
    config.write_text(yaml.safe_dump(document))
    named = [part for arm in arms for part in ("--arm", arm)]
    kvreplay("run", str(config), *named, "--out", str(here / "results"))
    (folder,) = (here / "results" / "small").iterdir()
    return open_run(folder), config, arms


def test_cached_tokens_are_predicted_one_for_one(run: tuple[Run, Path, tuple[str, ...]]) -> None:
    """vLLM alone, LMCache inside it: every request's tokens of each cache, before any was sent."""
    tables, _, arms = run
    assert len(cached(tables.requests, "cached_tokens")) == len(arms) * 3 * 8
    predicted_one_for_one(tables)
    made = read_json(tables.folder / "run.json")["predictions"]
    for arm in arms:
        assert made[arm]["t_ns"] < min(row["sent_ns"] for row in rows(tables.requests, arm=arm, workload="docs"))


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[int, str]]:
    """What each arm of either run answered, by request: prompts are the same in both."""
    return {}


def test_what_valkeys_give_back_is_what_was_computed(
    run: tuple[Run, Path, tuple[str, ...]], answers: dict[str, dict[int, str]]
) -> None:
    """LMCache inside vLLM, its loads in the engine's step or beside it: the tokens that computing gives."""
    tables, _, arms = run
    for arm in arms:
        first, again, reverse = (
            rows(tables.requests, arm=arm, workload="docs", **{"pass": name}) for name in ("first", "again", "reverse")
        )
        assert [row["cached_tokens"] for row in again] == [0 if arm == "recompute" else 2 * _CHUNK] * 8
        answers[arm] = {row["seq"]: row["output_text"] for row in (*first, *again, *reverse)}
    computed = answers.get("recompute") or pytest.skip("the run with an arm that recomputes was left out")
    assert len(set(computed.values())) == len(computed) == 3 * 8
    for arm in arms:
        # bfloat16: an answer whose best two tokens are within rounding may tip; a wrong KV changes nearly all of them
        assert sum(answers[arm][seq] == computed[seq] for seq in computed) >= 0.75 * len(computed)


def test_each_valkey_holds_the_keys_that_were_predicted(
    run: tuple[Run, Path, tuple[str, ...]], kvreplay: Kvreplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunk by chunk, where LMCache's own hash puts them: those of the documents, and of the proof of cold caches."""
    tables, config, arms = run
    arm = arms[-1]
    assert arm in {"sync", "async"}
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(kvreplay.cache_home))
    prepared = prepare(config)
    (workload,) = prepared.experiment.workloads
    plan = prepared.workloads.plan(workload, 0, None)
    proof = warm_up_plan(arm, prepared.workloads).passes[1].requests[-1]
    sent = [*plan.passes[0].requests, proof]
    expected = homes([key for one in sent for key in CHUNK_KEYS["sha256_cbor"](one.tokens, _CHUNK)], 2)
    samples = rows(tables.samples, arm=arm, source="valkey", name="keys")
    last = {row["instance"]: row["value"] for row in sorted(samples, key=lambda row: row["t_ns"])}
    assert [last["valkey-0"], last["valkey-1"]] == expected
    assert all(expected)


def homes(keys: Sequence[bytes], instances: int) -> list[int]:
    """How many different keys each instance has."""
    places = [int.from_bytes(key, "big") % instances for key in set(keys)]
    return [places.count(instance) for instance in range(instances)]
