"""The one door for traces: what holds for every format, shown on Mooncake's."""

import gzip
import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import TraceError
from harness.trace import ReadOptions, iter_rows, read_trace
from tests.fakes.traces import SHARED, jsonl, lines, row

needs_public_traces = pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not beside this checkout")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that every drawn example writes anew."""
    return tmp_path_factory.mktemp("drawn") / "t.jsonl"


def arrivals(path: Path, format: str | None = None, options: ReadOptions | None = None) -> list[int]:  # noqa: A002
    """Arrivals in us."""
    return [request.arrival_us for request in read_trace(path, format, options).requests]


def failure(path: Path, format: str | None = None, options: ReadOptions | None = None) -> TraceError:  # noqa: A002
    """The error that reading this file raises."""
    with pytest.raises(TraceError) as caught:
        read_trace(path, format, options)
    assert caught.value.remedy
    assert caught.value.where
    return caught.value


def test_mooncake_is_in_ms(tmp_path: Path) -> None:
    """Cases 1 and 2: the unit comes from the format, and is reported: 27,482 and 30,535 are 3.053 s apart."""
    path = jsonl(tmp_path / "t.jsonl", row(timestamp=27482), row(timestamp=30535))

    trace = read_trace(path)

    assert trace.requests[1].arrival_us == 3_053_000
    assert trace.report is not None
    assert (trace.report.time_unit, trace.report.zero_us) == ("ms", 27_482_000)
    assert (trace.report.format, trace.report.format_by) == ("mooncake", "guessed")


def test_vllms_variant_is_in_seconds_and_blocks_of_16(tmp_path: Path) -> None:
    """Case 3: a file for vLLM's timed_trace is read by vLLM's defaults, and by its own labels if named."""
    rows = [{"at": t, "input_length": 40, "out": 3, "hash_ids": [1, 2, 3]} for t in (0, 1.5)]
    path = jsonl(tmp_path / "t.jsonl", *rows)

    trace = read_trace(path, "vllm", ReadOptions(columns={"timestamp": "at", "output_length": "out"}))

    assert trace.block_size == 16
    assert [(one.arrival_us, one.output_tokens) for one in trace.requests] == [(0, 3), (1_500_000, 3)]


@given(
    st.lists(st.integers(0, 10**15), min_size=1, max_size=8),
    st.sampled_from([("ns", 3), ("us", 0), ("ms", -3), ("s", -6)]),
)
def test_any_unit_says_the_same_times(scratch: Path, times_us: list[int], unit: tuple[str, int]) -> None:
    """Times written in any unit, to the last decimal, are the same whole us: no float comes between."""
    name, exponent = unit
    texts = [f"{Decimal(us).scaleb(exponent):f}" for us in times_us]
    rows = [json.dumps(row(timestamp=0)).replace('"timestamp": 0', f'"timestamp": {text}') for text in texts]
    path = lines(scratch, *rows)

    assert arrivals(path, None, ReadOptions(time_unit=name)) == sorted(us - min(times_us) for us in times_us)


def test_fractions_are_rounded_to_us_not_cut(tmp_path: Path) -> None:
    """Case 11: 1, 2, 9 and 11 ms are 0, 1, 8 and 10 ms apart from the first; half a us rounds up."""
    texts = ["0.0010000", "0.0020000", "0.0090000", "0.0110000", "0.0110005"]
    rows = [json.dumps(row(timestamp=0)).replace('"timestamp": 0', f'"timestamp": {text}') for text in texts]

    assert arrivals(lines(tmp_path / "t.jsonl", *rows), None, ReadOptions(time_unit="s")) == [
        0,
        1000,
        8000,
        10_000,
        10_001,
    ]


@pytest.mark.parametrize(
    ("digits", "unit"), [(1760587666509217, "us"), (1760587666509217000, "ns"), (176058766650, "none of them")]
)
def test_unix_time_in_another_unit_is_refused(tmp_path: Path, digits: int, unit: str) -> None:
    """Case 5: a first time above 10^11 in no declared unit is refused with the unit that its digits suggest."""
    error = failure(jsonl(tmp_path / "t.jsonl", row(timestamp=digits)))

    assert f"timestamp of {len(str(digits))} digits" in error.what
    assert ("Unix time" in error.what) == (unit in {"us", "ns"})
    assert unit in error.what or unit == "none of them"


def test_ten_digits_are_noted(tmp_path: Path) -> None:
    """Case 5: ten digits may be 20 days of ms, or Unix time in s: they are read as ms, and the doubt is noted."""
    report = read_trace(jsonl(tmp_path / "t.jsonl", row(timestamp=1760587666))).report

    assert report is not None
    assert "may be Unix time in s" in report.notes[0]


def test_absolute_times_count_from_the_first(tmp_path: Path) -> None:
    """Case 6: Unix time in ms does not wait 54 years, and the original first time is kept."""
    trace = read_trace(jsonl(tmp_path / "t.jsonl", row(timestamp=1700158500000), row(timestamp=1700158500007)))

    assert [one.arrival_us for one in trace.requests] == [0, 7000]
    assert trace.report is not None
    assert trace.report.zero_us == 1700158500000_000


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_no_number_is_refused(tmp_path: Path, constant: str) -> None:
    """Case 8: NaN and Infinity, which Python's json reads, are refused with the line."""
    path = jsonl(tmp_path / "t.jsonl", row(), json.dumps(row()).replace('"timestamp": 0', f'"timestamp": {constant}'))

    error = failure(path)

    assert constant.lstrip("-") in error.what
    assert error.where == f"{path}:2"


@given(st.permutations(range(7)), st.lists(st.integers(0, 3), min_size=7, max_size=7))
def test_any_order_of_rows_is_one_trace(scratch: Path, order: list[int], times: list[int]) -> None:
    """Case 9: rows in any order come out by (time, place in the file), each with its own lengths and ids."""
    rows = [
        row(timestamp=time, input_length=513 + i, output_length=1 + i, hash_ids=[f"a{i}", f"b{i}"])
        for i, time in enumerate(times)
    ]
    path = jsonl(scratch, *(rows[i] for i in order))

    trace = read_trace(path)

    expected = sorted(((times[i], place) for place, i in enumerate(order)))
    assert [one.row for one in trace.requests] == [place for _, place in expected]
    assert [one.input_tokens for one in trace.requests] == [513 + order[place] for _, place in expected]
    assert [one.arrival_us for one in trace.requests] == [(time - min(times)) * 1000 for time, _ in expected]
    assert [one.blocks for one in trace.requests] == [(2 * i, 2 * i + 1) for i in range(7)]
    latest = [max(times[i] for i in order[: place + 1]) for place in range(7)]
    assert trace.report is not None
    assert trace.report.moved == sum(times[order[place]] < latest[place] for place in range(7))


def test_sorted_can_be_required(tmp_path: Path) -> None:
    """Case 9: with require_sorted, a row of an earlier time is an error that says by how much."""
    path = jsonl(tmp_path / "t.jsonl", row(timestamp=2), row(timestamp=0))

    error = failure(path, None, ReadOptions(require_sorted=True))

    assert error.what == "timestamp is 2000 us before that of an earlier row"
    assert error.where == f"{path}:2"


def test_zero_is_the_first_kept_row(tmp_path: Path) -> None:
    """Case 14: a bad or blank first row does not shift the times; what was dropped is counted, and counts reconcile."""
    bad = [row(timestamp="soon"), "", row(timestamp=99, output_length=None)]
    path = jsonl(tmp_path / "t.jsonl", *bad, row(timestamp=500), row(timestamp=1500))

    trace = read_trace(path, None, ReadOptions(on_bad_row="skip"))

    assert [(one.row, one.arrival_us) for one in trace.requests] == [(3, 0), (4, 1_000_000)]
    assert trace.report is not None
    assert trace.report.dropped == {
        "timestamp: not a value it can have": 1,
        "blank line": 1,
        "output_length: missing": 1,
    }
    assert trace.report.read == trace.report.kept + sum(trace.report.dropped.values()) == 5


@given(st.lists(st.sampled_from(["good", "bad time", "two sizes", "none", "zero output"]), min_size=1, max_size=12))
def test_counts_always_reconcile(scratch: Path, kinds: list[str]) -> None:
    """Whatever is skipped: read = kept + dropped, and a skipped row leaves no trace of itself in the others."""
    rows = {
        "good": row(),
        "bad time": row(timestamp=-1),
        "two sizes": row(input_length=700),
        "none": row(hash_ids=[]),
        "zero output": row(output_length=0),
    }
    path = jsonl(scratch, row(), *(rows[kind] for kind in kinds))

    trace = read_trace(path, "mooncake", ReadOptions(on_bad_row="skip"))

    assert trace.report is not None
    assert trace.report.kept == len(trace.requests) == 1 + kinds.count("good")
    assert trace.report.read == 1 + len(kinds) == trace.report.kept + sum(trace.report.dropped.values())
    assert trace.report.ids == 2


def test_rows_of_one_time_keep_their_order(tmp_path: Path) -> None:
    """Case 15: rows of one time keep the file's order, all of them."""
    rows = [row(timestamp=862919, output_length=n) for n in (4, 3, 9, 1)]

    requests = read_trace(jsonl(tmp_path / "t.jsonl", *rows)).requests

    assert [one.output_tokens for one in requests] == [4, 3, 9, 1]
    assert {one.arrival_us for one in requests} == {0}


@pytest.mark.parametrize("change", [{"hash_ids": None}, {"hash_ids": []}])
def test_rows_without_ids_share_nothing(tmp_path: Path, change: dict[str, object]) -> None:
    """Case 27: rows without ids are refused, or allowed and counted; they share nothing with any other."""
    path = jsonl(tmp_path / "t.jsonl", row(**change), row(**change), row())

    trace = read_trace(path, "mooncake", ReadOptions(allow_unhashed=True))

    assert "hash_ids is" in failure(path, "mooncake").what
    assert [one.blocks for one in trace.requests] == [(), (), (0, 1)]
    assert trace.report is not None
    assert trace.report.unhashed == 2


@pytest.mark.parametrize(("choice", "kept"), [("drop", [5]), ("one", [1, 5])])
def test_zero_output_is_a_choice(tmp_path: Path, choice: str, kept: list[int]) -> None:
    """Case 34: an output of no token is an error; dropped or raised to one on request, and counted."""
    path = jsonl(tmp_path / "t.jsonl", row(output_length=0), row())

    trace = read_trace(path, None, ReadOptions(zero_output=choice))  # type: ignore[arg-type]

    assert failure(path).what == "output_length is 0"
    assert [one.output_tokens for one in trace.requests] == kept
    assert trace.report is not None
    assert trace.report.dropped == ({"output_length: 0": 1} if choice == "drop" else {})
    assert trace.report.raised_outputs == (choice == "one")


def test_turns_wait_for_those_before(tmp_path: Path) -> None:
    """Case 38: a turn has its session, its number and its delay; one without a time comes its delay after the last."""
    rows = [
        row(session_id="a", timestamp=10, delay=9),
        row(session_id="b", timestamp=20),
        row(session_id="a", timestamp=None, delay=2.5),
    ]
    path = jsonl(tmp_path / "t.jsonl", *rows)

    requests = read_trace(path).requests

    assert [(one.session, one.turn, one.arrival_us, one.delay_us) for one in requests] == [
        ("a", 0, 0, None),
        ("a", 1, 2500, 2500),
        ("b", 0, 10_000, None),
    ]
    assert "no earlier row" in failure(jsonl(path, row(session_id="a", timestamp=None, delay=1))).what


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n\n"])
def test_an_empty_file_is_no_trace(tmp_path: Path, content: bytes) -> None:
    """Case 40: a file without rows is an error of exit code 2."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)

    error = failure(path)

    assert error.what == "no rows in the trace"
    assert error.exit_code == 2


def test_a_trace_of_which_nothing_is_left_is_none(tmp_path: Path) -> None:
    """Case 40: a trace whose every row is dropped is an error that says why they were."""
    path = jsonl(tmp_path / "t.jsonl", row(output_length=0), row(timestamp=-1))

    error = failure(path, None, ReadOptions(on_bad_row="skip"))

    assert error.what.startswith("no row is left of 2: ")
    assert "output_length: 0 (1)" in error.what


def test_a_bom_hides_no_row(tmp_path: Path) -> None:
    """Case 41: the first row behind a BOM is read."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(row()).encode() + b"\r\n" + json.dumps(row()).encode())

    assert len(read_trace(path).requests) == 2


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (gzip.compress(b"{}\n", mtime=0), "is a gzip file"),
        (b"\x00\x01\x02", "is a binary file"),
        (b'{"timestamp":0}\n\x00', "is a binary file"),
        (b"PAR1....", "is a parquet file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, not the trace"),
        ("{}".encode("utf-16"), "is UTF-16"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes, what: str) -> None:
    """Packed and binary files are refused by what they are, with what to do, under any format."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)

    assert failure(path).what == what
    assert failure(path, "burstgpt", ReadOptions(allow_unhashed=True)).what == what


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """A folder is refused, unless its files say what it is."""
    assert "fits no format" in failure(tmp_path).what
    assert failure(tmp_path, "mooncake").what == "is a folder"


def test_a_file_that_grows_is_refused(tmp_path: Path) -> None:
    """A file to which rows are added while it is read is refused: nobody knows what it is."""
    path = jsonl(tmp_path / "t.jsonl", *[row()] * 3)

    def read_while_writing() -> Iterator[None]:
        for _ in iter_rows(path):
            with path.open("a") as file:
                file.write(json.dumps(row()) + "\n")
            yield

    with pytest.raises(TraceError, match="changed while it was read"):
        list(read_while_writing())


def test_options_may_not_contradict_the_sidecar(tmp_path: Path) -> None:
    """A sidecar has the word; an option that says otherwise is an error, one that says the same is not."""
    path = jsonl(tmp_path / "t.jsonl", row(input_length=20), meta={"block_size": 16})

    assert "block_size is 512 in the options, but 16" in failure(path, None, ReadOptions(block_size=512)).what
    assert read_trace(path, None, ReadOptions(block_size=16)).block_size == 16


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("on_bad_row", "ignore"),
        ("zero_output", "two"),
        ("time_unit", "min"),
        ("block_size", 0),
        ("output_tokens", 0),
        ("subagents", "keep"),
    ],
)
def test_options_are_checked(option: str, value: object) -> None:
    """An option that has no such value is an error that names both."""
    with pytest.raises(TraceError, match=f"{option} is"):
        ReadOptions(**{option: value})  # type: ignore[arg-type]


def test_a_stream_gives_what_the_list_gives(tmp_path: Path) -> None:
    """Rows one by one are the rows of the list, for a file in order of time."""
    rows = [row(timestamp=i, hash_ids=[i // 2, 100 + i // 2]) for i in range(9)]
    path = jsonl(tmp_path / "t.jsonl", *rows)

    assert tuple(iter_rows(path)) == read_trace(path).requests


@needs_public_traces
def test_the_public_conversation_trace() -> None:
    """Case 15: Mooncake's conversation trace has 12,031 rows at 1,180 times 3 s apart, with 28 at one of them."""
    trace = read_trace(SHARED / "mooncake_conversation.jsonl")
    times = [one.arrival_us for one in trace.requests]
    distinct = sorted(set(times))

    assert len(times) == 12_031
    assert (len(distinct), max(map(times.count, distinct))) == (1180, 28)
    assert {round((b - a) / 1e6) for a, b in pairwise(distinct)} == {3}
    assert trace.report is not None
    assert (trace.report.moved, trace.report.unhashed, trace.report.ids) == (0, 0, 182_790)
    assert max(one.input_tokens for one in trace.requests) == 126_195
    assert sum(15_000 <= one.input_tokens <= 17_500 for one in trace.requests) == 618
