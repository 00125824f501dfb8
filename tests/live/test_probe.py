"""`kvreplay probe` on the live stack: links, s and T0 are found again, of a stack it starts and of one that runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import ROOT, Kvreplay
from tests.live.served import Served, up

LAPTOP = ROOT / "configs" / "laptop.yaml"
SIZE = 4096


def fixed(folder: Path) -> Path:
    """The shipped experiment with links that do not hang on this machine's R: no engine has to tell it first."""
    text = LAPTOP.read_text().replace("0.34 Bstar", "9MB/s").replace("1.06 Bstar", "28MB/s")
    config = folder / "fixed.yaml"
    config.write_text(text.replace("file: workloads", f"file: {ROOT / 'workloads'}"))
    return config


def holds(figure: dict[str, Any], true: float, within: float = 0.1) -> bool:
    """Whether the true value, give or take `within`, is in a figure's interval: on a quiet machine that is narrow."""
    low, high = (figure[end] if figure[end] != "infinite" else float("inf") for end in ("low", "high"))
    return bool(low <= true * (1 + within) and high >= true * (1 - within))


def found_again(arm: dict[str, Any], link: float, instances: int) -> None:
    """B of hits and of raw reads is that of the links, alone and together; s is the model's within 1 %."""
    figures = arm["figures"]
    # What LMCache does with a chunk, 2 ms or so, is in B of hits: little beside 116 ms on one link, more beside 37.
    within = 0.1 if instances == 1 else 0.15
    assert holds(figures["bandwidth_bytes_per_s"], link * instances, within), figures["bandwidth_bytes_per_s"]
    assert figures["counted_kv_bytes_per_token"]["value"] == pytest.approx(SIZE, rel=0.01)
    assert all(point["bytes_per_s"]["value"] < 1.1 * link * point["instances"] for point in arm["raw"])
    assert max(point["bytes_per_s"]["value"] for point in arm["raw"]) > 0.85 * link * instances
    for name in ("hit_fixed_s", "hit_s", "prefill_tokens_per_s"):
        assert figures[name]["low"] <= figures[name]["value"] <= figures[name]["high"]
    assert 0 < figures["hit_fixed_s"]["high"] < figures["recompute_s"]["value"]


@pytest.mark.usefixtures("alone")
def test_four_valkeys_are_on(kvreplay: Kvreplay, tmp_path: Path) -> None:
    """A shipped arm: its links' rates are found again, one and together; R is measured on it too.

    Chunks lie on instances as LMCache's own keys have it.
    """
    document = json.loads(
        kvreplay("probe", str(fixed(tmp_path)), "--arm", "valkey-4", "--out", str(tmp_path), "--json")
    )
    assert kvreplay.survivors() == []
    four = document["arms"]["valkey-4"]
    found_again(four, four["figures"]["link_bytes_per_s"]["value"], 4)
    assert four["verdict"]["word"] == "on"
    assert document["verdict"] == "on_with_sharding", "on, and no single instance was measured that is"
    assert four["figures"]["rho"]["high"] < 1
    assert len({slowdown for _, _, slowdown in four["hits"]["points"]}) > 1


@pytest.mark.usefixtures("alone")
def test_a_stack_that_runs_is_probed_by_its_urls(kvreplay: Kvreplay, tmp_path: Path) -> None:
    """`up`, then `probe --url`: the link that nobody told of is found, s is counted, and the stack is left running."""
    with up(kvreplay, "valkey-1", fixed(tmp_path)) as stack:
        more = [f"--valkey-url={url}" for url in stack.state["valkey_urls"]]
        more += ["--lmcache-url", stack.state["lmcache_url"], "--reset-engine", "--out", str(tmp_path)]
        given = ("--url", stack.state["url"], "--model", stack.state["model"], "--longest", "1301")
        document = json.loads(kvreplay("probe", *given, *more, "--prompt", "1280", "--rate", "1", "--json"))
        figures = document["arms"]["attached"]["figures"]
        assert holds(figures["bandwidth_bytes_per_s"], 9e6)
        assert figures["kv_bytes_per_token"]["value"] == pytest.approx(SIZE, rel=0.01)  # counted: nobody said it
        assert document["arms"]["attached"]["verdict"]["word"] == "off"
        assert document["cold"]["stored"] is True
        assert is_up(stack)
        kvreplay("probe", *given, *more, "--chunk", "2048", expect=2)


def is_up(stack: Served) -> bool:
    """Whether its vLLM still answers."""
    return stack.http.get(f"{stack.state['url']}/health").status_code == 200
