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
        ((64, 1984), ("recompute", "valkey-1", "async")),
        ((128, 2816), ("sync",)),
    ],
    ids=["blocks-of-64", "blocks-of-128"],
)
def run(
    request: pytest.FixtureRequest, alone: None, kvreplay: Kvreplay, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Run, Path, tuple[str, ...]]:
    """A run of arms of both modes of LMCache with blocks and a KV cache of these sizes: its tables, config and arms.

    The third case, blocks of 128 with LMCache's multiprocess server, is that of test_run.
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
    """vLLM alone, a Valkey behind either mode: every request's tokens of each cache, before any was sent."""
    tables, _, arms = run
    assert len(cached(tables.requests, "cached_tokens")) == len(arms) * 3 * 8
    predicted_one_for_one(tables)
    made = read_json(tables.folder / "run.json")["predictions"]
    for arm in arms:
        assert made[arm]["t_ns"] < min(row["sent_ns"] for row in rows(tables.requests, arm=arm, workload="docs"))


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
