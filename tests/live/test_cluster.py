"""A Valkey Cluster of three nodes, which places the keys itself."""

from pathlib import Path

import pytest

from tests.live.conftest import Kvreplay
from tests.live.served import agree, up
from tests.live.test_inprocess import KEYS, computed, loaded

pytestmark = pytest.mark.usefixtures("alone")


def test_a_cluster_gives_the_computed_answer(kvreplay: Kvreplay) -> None:
    """Keys are on all three nodes, and what they give back is what was computed."""
    with up(kvreplay, "cluster", Path(__file__).parent / "cluster.yaml") as stack:
        answers = computed(stack, KEYS)
        assert all(stack.stored()), "no node is left out"
        agree(loaded(stack), answers)
