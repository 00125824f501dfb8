"""Where the chunks of prompts lie: by the client's own placement, or not told at all."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from harness.config import Arm, Client
from harness.experiment.placement import placement_of, slowdowns
from harness.plugins.placement import home_over
from harness.sim.keys import CHUNK_KEYS
from tests.fakes.plans import request

CHUNK = 256
ENDPOINTS = [f"127.0.0.1:{7000 + nth}" for nth in range(4)]
PROMPTS = [
    request(seq, np.random.default_rng(seq).integers(4, 32_000, tokens, dtype=np.uint32))
    for seq, tokens in enumerate([1301, 1281, 1280, 5000, 257])
]


def arm(mode: str = "mp", **valkey: Any) -> Arm:
    """An arm with four Valkeys."""
    return Arm.model_validate(
        {"name": "a", "lmcache": {"mode": mode, "l1": "1GiB"}, "valkey": {"instances": 4, **valkey}}
    )


@pytest.mark.parametrize("mode", ["mp", "inprocess"])
def test_the_fullest_instance_is_that_of_our_client(mode: str) -> None:
    """Of the chunks that can hit, by the keys of LMCache's mode and where the plugin puts such a key."""
    keys_of = CHUNK_KEYS["blake3" if mode == "mp" else "sha256_cbor"]
    home = home_over(ENDPOINTS, "chunk")
    found = slowdowns(arm(mode), Client(), PROMPTS, started=True)
    for prompt in PROMPTS:
        keys = list(keys_of(prompt.tokens[:-1], CHUNK))
        names = [f"m@00000000@0@{key.hex()}" if mode == "mp" else f"m@1@0@{key.hex()}@bfloat16" for key in keys]
        most = max(Counter(map(home, names)).values())
        assert found[prompt.seq] == pytest.approx(4 * most / len(keys))
    assert len({round(one, 3) for one in found.values()}) > 1


def test_what_is_even_is_one() -> None:
    """A single instance, or an equal part on each."""
    for even in (arm(instances=1), arm(placement="rank")):
        assert slowdowns(even, Client(), PROMPTS, started=True) == dict.fromkeys(range(5), 1.0)
        assert placement_of(even).is_even


def test_what_nobody_knows_is_not_told() -> None:
    """Other people's servers, rendezvous hashing (ports change from start to start), chats; without Valkey nothing."""
    assert slowdowns(arm(), Client(), PROMPTS, started=False) == {}
    assert slowdowns(arm(placement="consistent"), Client(), PROMPTS, started=True) == {}
    assert slowdowns(arm(), Client(endpoint="chat"), PROMPTS, started=True) == {}
    assert slowdowns(Arm(name="recompute"), Client(), PROMPTS, started=True) == {}
    assert placement_of(arm(placement="consistent")).chunk_tokens == CHUNK


def test_a_prompt_without_a_whole_chunk_has_none() -> None:
    """Nothing of it can be loaded."""
    short = request(9, np.arange(4, 200, dtype=np.uint32))
    assert slowdowns(arm(), Client(), [short], started=True) == {}
    assert slowdowns(arm(instances=1), Client(), [short], started=True) == {}
