"""LMCache inside two tensor-parallel workers, each with a Valkey of its own."""

from pathlib import Path

import pytest

from tests.live.conftest import Kvreplay
from tests.live.served import agree, up
from tests.live.test_inprocess import KEYS, computed, loaded

pytestmark = pytest.mark.usefixtures("alone")


def test_each_rank_keeps_its_part_on_its_own_valkey(kvreplay: Kvreplay) -> None:
    """Rank 0's keys on the first, rank 1's on the second, and together they give the computed answers."""
    with up(kvreplay, "ranks", Path(__file__).parent / "inprocess-tp2.yaml") as stack:
        answers = computed(stack, 2 * KEYS)
        for rank, keys in enumerate(stack.keys()):
            assert [key.split(b"@")[1:3] for key in keys] == [[b"2", str(rank).encode()]] * KEYS
        agree(loaded(stack), answers)
