"""`kvreplay probe` on the live stack: the link's bandwidth and the model's s are found again."""

import json

import pytest

from tests.live.conftest import CONFIG, Kvreplay

pytestmark = pytest.mark.usefixtures("alone")


def test_the_probe_finds_the_link_and_the_size_again(
    kvreplay: Kvreplay, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """B of raw reads within 10 % of the link's, s within 1 % of config.json's, every figure with its interval."""
    out = tmp_path_factory.mktemp("probe")
    arms = ("--arm", "recompute", "--arm", "valkey-1")
    document = json.loads(kvreplay("probe", str(CONFIG), *arms, "--out", str(out), "--json"))
    arm = document["arms"]["valkey-1"]
    figures = arm["figures"]
    link = figures["link_bytes_per_s"]["value"]
    assert arm["raw"][0]["bytes_per_s"]["value"] == pytest.approx(link, rel=0.1)
    assert figures["counted_kv_bytes_per_token"]["value"] == pytest.approx(2048, rel=0.01)
    assert figures["hit_s"]["low"] <= figures["hit_s"]["value"] <= figures["hit_s"]["high"]
    assert len(arm["hits"]["points"]) == len(document["cold"]["points"])
    assert arm["verdict"]["word"] in {"on", "off", "on_over_length", "undecided"}
    assert kvreplay.survivors() == []
