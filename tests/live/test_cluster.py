"""A Valkey Cluster of three nodes, which places the keys itself."""

from pathlib import Path

import pytest

from tests.live.conftest import Kvreplay
from tests.live.served import KEYS, agree, computed, loaded, up

pytestmark = pytest.mark.usefixtures("alone")


def test_a_cluster_gives_the_computed_answer(kvreplay: Kvreplay) -> None:
    """Keys are on several nodes, and what they give back is what was computed."""
    with up(kvreplay, "cluster", Path(__file__).parent / "cluster.yaml") as stack:
        answers = computed(stack, KEYS)
        assert sum(count > 0 for count in stack.stored()) >= 2, "by slot: once in 40 runs one of three has none"
        agree(loaded(stack), answers)
