"""Two tensor-parallel ranks, each with a Valkey of its own, in both of LMCache's modes."""

from pathlib import Path

import pytest

from harness.plugins.placement import home_over
from tests.live.conftest import Kvreplay
from tests.live.served import KEYS, agree, computed, loaded, up

pytestmark = pytest.mark.usefixtures("alone")


@pytest.mark.parametrize("arm", ["inprocess", "mp"])
def test_each_rank_keeps_its_part_on_its_own_valkey(kvreplay: Kvreplay, arm: str) -> None:
    """Rank 0's keys on the first, rank 1's on the second, and together they give the computed answers."""
    with up(kvreplay, arm, Path(__file__).parent / "ranks.yaml") as stack:
        answers = computed(stack, 2 * KEYS)
        home = home_over(["first", "second"], "rank")
        for rank, keys in enumerate(stack.keys()):
            assert len(keys) == KEYS
            assert {home(key.decode()) for key in keys} == {rank}
        agree(loaded(stack), answers)
