"""Block ids: what a row may hold, and what an id may stand for."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import TraceError
from harness.trace import ReadOptions, read_trace
from harness.trace.blocks import BlockTable, check_count, ids_of
from harness.trace.fields import RowError
from harness.trace.sidecar import Sidecar
from tests.fakes.traces import SHARED, jsonl, row

TAILS = ("ceil", "floor", "unhashed")


def failure(path: Path, options: ReadOptions | None = None) -> TraceError:
    """The error that reading this file raises."""
    with pytest.raises(TraceError) as caught:
        read_trace(path, "mooncake", options)
    return caught.value


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"input_length": 1024, "hash_ids": [1, 2, 3]}, "3 ids, which need 1025 to 1536 tokens at block_size 512"),
        ({"input_length": 655, "hash_ids": [0, 1, 2]}, "3 ids, which need 1025 to 1536 tokens at block_size 512"),
        ({"input_length": 20, "hash_ids": [0, 1]}, "2 ids, which need 513 to 1024 tokens at block_size 512"),
    ],
)
def test_ids_must_fit_the_length(tmp_path: Path, change: dict[str, object], what: str) -> None:
    """Cases 17 and 18: too many ids for a length are refused with the lengths that they need."""
    assert what in failure(jsonl(tmp_path / "t.jsonl", row(**change))).what


def test_another_block_size_is_only_suggested(tmp_path: Path) -> None:
    """Case 20: a row that was recorded at 16 is refused at 512, with 16 as a suggestion; told, it is read."""
    path = jsonl(tmp_path / "t.jsonl", row(input_length=40, hash_ids=[1, 2, 3]))

    assert "this row fits 16" in failure(path).remedy
    assert read_trace(path, "mooncake", ReadOptions(block_size=16)).requests[0].blocks == (0, 1, 2)


@pytest.mark.parametrize(("tail", "ids"), [("floor", [0]), ("ceil", [0, 1])])
def test_the_tail_rule_is_declared(tmp_path: Path, tail: str, ids: list[int]) -> None:
    """Case 22: 6 tokens in blocks of 4 have one id by floor and two by ceil; neither rule takes the other's rows."""
    path = jsonl(tmp_path / "t.jsonl", row(input_length=6, hash_ids=ids))
    other = {"floor": "ceil", "ceil": "floor"}[tail]

    assert read_trace(path, None, ReadOptions(block_size=4, tail=tail)).requests[0].blocks == tuple(range(len(ids)))
    assert f"tail {other}" in failure(path, ReadOptions(block_size=4, tail=other)).what


@given(st.integers(1, 5000), st.integers(1, 700), st.sampled_from(TAILS))
def test_any_tail_rule_takes_its_own_counts_only(tokens: int, size: int, tail: str) -> None:
    """For any length, block size and rule: the right counts are taken, the one below and the one above are not."""
    declared = Sidecar(block_size=size, tail=tail)
    right = ids_of(tokens, size, tail)

    assert right == (tokens + size - 1) // size if tail == "ceil" else right == tokens // size
    if right:
        check_count(right, tokens, declared)
    with pytest.raises(RowError, match=f"{right + 1} ids"):
        check_count(right + 1, tokens, declared)
    if right > 1:
        if tail == "unhashed":
            check_count(right - 1, tokens, declared)
        else:
            with pytest.raises(RowError, match=f"{right - 1} ids"):
                check_count(right - 1, tokens, declared)


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (655, 672, "hash_ids has 47 for 160 tokens, but row 1 has it for 143"),
        (1024, 672, "hash_ids has 47 for 160 tokens, but row 1 has it for 512"),
        (655, 1024, "hash_ids has 47 for 512 tokens, but row 1 has it for 143"),
    ],
)
def test_one_id_has_one_size(tmp_path: Path, first: int, second: int, what: str) -> None:
    """Case 24: one id for two numbers of tokens is refused with both rows, whichever comes first."""
    rows = [row(input_length=length, hash_ids=[46, 47]) for length in (first, second)]

    assert failure(jsonl(tmp_path / "t.jsonl", *rows)).what == what


def test_ids_of_any_size_stay_apart(tmp_path: Path) -> None:
    """Case 26: ids that agree in their low bits, or as floats, or as text, are different blocks; 0 is a real id."""
    ids: list[object] = [0, 1, 2**32 + 1, 2**53, 2**53 + 1, 2**64, 2**64 + 1, 10**30, "1", "0x1"]
    path = jsonl(tmp_path / "t.jsonl", row(input_length=512 * len(ids), hash_ids=ids))

    assert read_trace(path).requests[0].blocks == tuple(range(len(ids)))


@pytest.mark.parametrize(
    ("ids", "what"),
    [
        ([[7, 8], [9, 8]], "hash_ids has 8 behind 9, but row 1 has it behind another id"),
        ([[7, 8], [8, 9]], "hash_ids has 8 first, but row 1 has it behind another id"),
        ([[7, 8], [9, 7]], "hash_ids has 7 behind 9, but row 1 has it first"),
        ([[7, 8], [9, 9]], "hash_ids has 9 twice"),
        ([[7, 8], [7, 7]], "hash_ids has 7 behind 7, but row 1 has it first"),
    ],
)
def test_a_prefix_id_has_one_prefix(tmp_path: Path, ids: list[list[int]], what: str) -> None:
    """An id that stands for a block and all before it comes behind one other only; contents may come anywhere."""
    rows = [row(input_length=1024, hash_ids=one) for one in ids]
    path = jsonl(tmp_path / "t.jsonl", *rows)

    assert what in failure(path).what
    assert len(read_trace(path, None, ReadOptions(hash_kind="content")).requests) == 2


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=12), st.booleans())
def test_dense_ids_are_the_same_for_any_names(rows: list[list[int]], scattered: bool) -> None:
    """Contents get the dense ids that a dict would give, whether their names lie close together or far apart."""
    table = BlockTable(Sidecar(block_size=4, hash_kind="content"))
    plain: dict[int, int] = {}
    for number, names in enumerate(rows, start=1):
        shown = [name * 10**18 if scattered else name for name in names]
        expected = tuple(plain.setdefault(name, len(plain)) for name in names)
        assert table.add(shown, 4 * len(names), "", number) == expected
    assert len(table) == len(plain)


def test_a_refused_row_is_forgotten() -> None:
    """A row that is refused leaves no id behind."""
    table = BlockTable(Sidecar(block_size=4))
    table.add([1, 2], 8, "", 1)
    with pytest.raises(RowError):
        table.add([3, 2, 9], 12, "", 2)
    with pytest.raises(RowError):
        table.add([1, 2], 7, "", 3)

    assert len(table) == 2
    assert table.add([3, 4], 8, "", 4) == (2, 3)


@pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not beside this checkout")
def test_hits_of_the_public_trace() -> None:
    """Case 32: with an infinite cache, 37.4 % of conversation's tokens hit and 36.6 % of its blocks."""
    trace = read_trace(SHARED / "mooncake_conversation.jsonl")
    seen: set[int] = set()
    hits = []
    for one in trace.requests:  # an id stands for its whole prefix here, so that knowing it is knowing all before it
        hits.append(min(512 * len(seen.intersection(one.blocks)), one.input_tokens))
        seen.update(one.blocks)

    assert sum(hits) / sum(one.input_tokens for one in trace.requests) == pytest.approx(0.374, abs=5e-4)
    blocks = sum(-(-tokens // 512) for tokens in hits) / sum(len(one.blocks) for one in trace.requests)
    assert blocks == pytest.approx(0.366, abs=5e-4)


@pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not beside this checkout")
def test_the_malformed_public_sample() -> None:
    """Case 17: aiperf's sample, with three ids for 1,024 tokens, is refused at its line; the rest of it can be read."""
    path = SHARED / "aiperf_0.13.0_template_production_trace.jsonl"

    error = failure(path, ReadOptions(allow_unhashed=True))
    rest = read_trace(path, None, ReadOptions(allow_unhashed=True, on_bad_row="skip"))

    assert error.where == f"{path}:3"
    assert rest.report is not None
    assert rest.report.dropped == {
        "hash_ids: another count than input_length needs": 1,
        "hash_ids: one id for two sizes": 2,  # id 2 for 256 tokens, then twice for 512
    }
