"""The curve of a trace."""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.errors import TraceError
from harness.experiment.curve import cliff, curves_of, document
from harness.sim.curve import hit_curve, uses_of
from harness.trace import ReadOptions, read_trace
from harness.trace.reuse import PrefixTree
from tests.fakes.traces import SHARED, jsonl, row

MOONCAKE = SHARED / "mooncake_conversation.jsonl"
CHUNK_BYTES = 24_780_800  # 512 tokens of 48,400 bytes

# numbers.md D: `lmcache tool cache-simulator sweep` of LMCache 0.5.5, capacity in GiB -> token hit rate in %
LMCACHE = {0.974: 3.62, 9.488: 4.30, 63.239: 6.30, 135.056: 13.81, 288.430: 23.96, 615.982: 32.20, 6000: 37.38}


def head_first(rows: Sequence[tuple[list[int], int]], capacity: int) -> float:
    """LMCache's simulator as its figures are: a row's head goes first, its last chunk counts though in part."""
    held: OrderedDict[int, None] = OrderedDict()
    hit = 0
    for prefixes, tokens in rows:
        found = next((i for i, prefix in enumerate(prefixes) if prefix not in held), len(prefixes))
        hit += min(found * 512, tokens)
        for prefix in prefixes:
            held[prefix] = None
            held.move_to_end(prefix)
            if len(held) > capacity:
                held.popitem(last=False)
    return 100 * hit / sum(tokens for _, tokens in rows)


@pytest.mark.skipif(not MOONCAKE.exists(), reason="the trace is not on this machine")
def test_mooncake_beside_lmcaches_own_simulator() -> None:
    """Its figures follow from its rules within 0.03 points; ours, losing tails first, are 0.7 above at most."""
    tree = PrefixTree()
    rows = [(tree.walk(one.blocks), one.input_tokens) for one in read_trace(MOONCAKE).requests]
    (found,) = curves_of(MOONCAKE, None, ReadOptions(), [("host", 512)])
    for gib, percent in LMCACHE.items():
        granules = int(gib * 2**30 // CHUNK_BYTES)
        assert head_first(rows, granules) == pytest.approx(percent, abs=0.03)
        assert -0.05 < found.curve.hit_rate(granules * 512) * 100 - percent < 0.7


def test_the_document_has_every_curve_exact_where_it_is_shown(tmp_path: Path) -> None:
    """Points rise from one granule to where more room hits no more, and each is the curve's own value."""
    rows = [row(timestamp=i, input_length=1024, hash_ids=[i % 3, 10 + i % 3]) for i in range(9)]
    path = jsonl(tmp_path / "t.jsonl", *rows)
    curves = curves_of(path, None, ReadOptions(), [("gpu", 16), ("host, remote", 256)])
    found = document(path, curves, 1000, 10)
    for one, curve in zip(found["curves"], curves, strict=True):
        for point in one["points"]:
            assert point["hit_rate"] == curve.curve.hit_rate(point["capacity_tokens"])
            assert point["capacity_bytes"] == 1000 * point["capacity_tokens"]
        assert one["points"][-1]["hit_rate"] == one["best_hit_rate"]


def test_hits_that_come_bit_by_bit_are_no_cliff() -> None:
    """Distances from one to a hundred granules."""
    rows = [([d], 11) for size in range(1, 101) for d in (*range(size), *range(size))]
    assert cliff(hit_curve(uses_of(rows, 100, 10, 10))) is None


def test_a_trace_that_says_nothing_of_sharing_has_no_curve(tmp_path: Path) -> None:
    """It is refused, with what to do."""
    path = jsonl(tmp_path / "t.jsonl", row(hash_ids=None), row(timestamp=5, hash_ids=None))
    with pytest.raises(TraceError, match="no row says what it shares"):
        curves_of(path, None, ReadOptions(allow_unhashed=True), [("gpu", 16)])
