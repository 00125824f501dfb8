"""The Mooncake reader."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import TraceError
from harness.trace import Sidecar, TraceRequest, read_trace, sidecar_path, write_trace

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "traces"

GOOD = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [7, 8]}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that every drawn example writes anew."""
    return tmp_path_factory.mktemp("drawn") / "t.jsonl"


def written(path: Path, *rows: object, meta: dict[str, object] | None = None) -> Path:
    """A trace file of these rows (or raw lines), with a sidecar if `meta` is given."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if meta is not None:
        sidecar_path(path).write_text(json.dumps({"schema": 1, **meta}))
    return path


def failure(path: Path) -> TraceError:
    """The error that reading this file raises."""
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    return caught.value


def test_reads_rows(tmp_path: Path) -> None:
    """A row's times become us, its ids dense, and what is known of the source is kept."""
    path = written(tmp_path / "t.jsonl", GOOD, {**GOOD, "timestamp": 2.5, "hash_ids": [7, 2**70]})

    trace = read_trace(path)

    assert trace.requests == (
        TraceRequest(0, "", 0, 0, 600, 5, (0, 1)),
        TraceRequest(1, "", 0, 2500, 600, 5, (0, 2)),
    )
    assert (trace.block_size, trace.source, trace.provenance) == (512, str(path), "unstated")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"timestamp": None}, "timestamp is null"),
        ({"timestamp": True}, "timestamp is true"),
        ({"timestamp": -1}, "timestamp is -1"),
        ({"timestamp": "0"}, 'timestamp is "0"'),
        ({"input_length": 0}, "input_length is 0"),
        ({"input_length": 600.5}, "input_length is 600.5"),
        ({"input_length": True}, "input_length is true"),
        ({"input_length": 10**400}, "input_length is 1000"),
        ({"output_length": 0}, "output_length is 0"),
        ({"output_length": -3}, "output_length is -3"),
        ({"output_length": None}, "output_length is null"),
        ({"output_length": 2**31}, "output_length is 2147483648"),
        ({"hash_ids": []}, "hash_ids is []"),
        ({"hash_ids": None}, "hash_ids is missing"),
        ({"hash_ids": [7, -1]}, "hash_ids[1] is -1"),
        ({"hash_ids": [True, 8]}, "hash_ids[0] is true"),
        ({"hash_ids": [7, 8.0]}, "hash_ids[1] is 8.0"),
        ({"hash_ids": [7, ""]}, 'hash_ids[1] is ""'),
        ({"hash_ids": [7, 8, 9]}, "hash_ids has 3 ids, which need 1025 to 1536 tokens at block_size 512"),
        ({"hash_ids": [7]}, "hash_ids has 1 ids, which need 1 to 512 tokens at block_size 512"),
        ({"session_id": 3}, "session_id is 3"),
        ({"session_id": "\ud800"}, "session_id is"),
        ({"input_tokens": 600}, "input_length and input_tokens mean the same"),
    ],
)
def test_refuses_a_bad_value(tmp_path: Path, change: dict[str, object], what: str) -> None:
    """A value that cannot be used is an error that names file:line, field and value, and what to do."""
    path = written(tmp_path / "t.jsonl", GOOD, {**GOOD, **change})

    error = failure(path)

    assert what in error.what
    assert error.where == f"{path}:2"
    assert error.remedy


@pytest.mark.parametrize("key", sorted(GOOD))
def test_refuses_a_missing_key(tmp_path: Path, key: str) -> None:
    """Each of the four keys must be there."""
    path = written(tmp_path / "t.jsonl", {name: value for name, value in GOOD.items() if name != key})

    error = failure(path)

    assert (error.what, error.where) == (f"{key} is missing", f"{path}:1")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("", "blank line"),
        (" \t", "blank line"),
        ("{", "not JSON"),
        ("[1]", "expected a JSON object, found [1]"),
        ('{"timestamp":NaN}', "NaN is not a JSON number"),
        ('{"timestamp":Infinity}', "Infinity is not a JSON number"),
        ('{"timestamp":1e999,"input_length":1,"output_length":1,"hash_ids":[7]}', "timestamp is 1E+999"),
        ('{"timestamp":1,"timestamp":2}', "key 'timestamp' appears twice"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_refuses_a_bad_line(tmp_path: Path, line: str, what: str) -> None:
    """A line that is no JSON object is an error that names it; Python's own JSON extensions are not JSON."""
    path = written(tmp_path / "t.jsonl", GOOD, line, GOOD)

    error = failure(path)

    assert what in error.what
    assert error.where == f"{path}:2"


def test_refuses_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    """Bytes that are no text name their line."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n\xff\xfe\n")

    assert failure(path).where == f"{path}:2"


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n\n"])
def test_refuses_a_file_without_rows(tmp_path: Path, content: bytes) -> None:
    """An empty file is an error, not an empty trace."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)

    assert failure(path).what == "no rows in the trace"


def test_refuses_a_missing_file(tmp_path: Path) -> None:
    """A file that is not there is the user's mistake."""
    assert "cannot read the trace" in failure(tmp_path / "none.jsonl").what


def test_refuses_one_id_with_two_sizes(tmp_path: Path) -> None:
    """One id for two numbers of tokens is an error that names both rows."""
    path = written(tmp_path / "t.jsonl", {**GOOD, "input_length": 655}, GOOD | {"input_length": 672})

    error = failure(path)

    assert error.what == "hash_ids has 8 for 160 tokens, but row 1 has it for 143"
    assert error.where == f"{path}:2"


def test_names_block_sizes_that_would_fit(tmp_path: Path) -> None:
    """A row of another block size is refused with the usual sizes that it fits."""
    path = written(tmp_path / "t.jsonl", {**GOOD, "input_length": 40, "hash_ids": [1, 2, 3]})

    assert "this row fits 16" in failure(path).remedy


def test_tolerates_a_bom_unknown_keys_and_aliases(tmp_path: Path) -> None:
    """A BOM, keys of other tools, their names for ours, CRLF and no final newline do not change what is read."""
    plain = read_trace(written(tmp_path / "a.jsonl", GOOD)).requests
    other = {"created_time": 0, "input_tokens": 600.0, "output_tokens": 5, "hash_ids": ["x", "y"], "model": "m"}
    path = tmp_path / "b.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(other).encode() + b"\r")

    assert read_trace(path).requests == plain


def test_sorts_by_arrival_and_keeps_each_row_together(tmp_path: Path) -> None:
    """Rows out of order are put in order with their own lengths; rows of one time keep the file's order."""
    times = [5, 3, 5, 3]
    rows = [
        {"timestamp": time, "input_length": 10 + i, "output_length": 1, "hash_ids": [i]} for i, time in enumerate(times)
    ]
    trace = read_trace(written(tmp_path / "t.jsonl", *rows))

    assert [(r.row, r.arrival_us, r.input_tokens) for r in trace.requests] == [
        (1, 0, 11),
        (3, 0, 13),
        (0, 2000, 10),
        (2, 2000, 12),
    ]
    assert [r.blocks for r in trace.requests] == [(0,), (1,), (2,), (3,)]


def test_wide_ids_stay_apart(tmp_path: Path) -> None:
    """Ids that agree in their low bits, or as floats, or as text, are different blocks; 0 is an id like any other."""
    ids: list[object] = [0, 1, 2**32 + 1, 2**53, 2**53 + 1, 2**64, "1"]
    row = {**GOOD, "input_length": 512 * len(ids), "hash_ids": ids}

    assert read_trace(written(tmp_path / "t.jsonl", row)).requests[0].blocks == tuple(range(len(ids)))


def test_undeclared_epoch_in_us_is_refused(tmp_path: Path) -> None:
    """Unix time in us without a sidecar is refused with the likely unit; declared, it is read as such."""
    row = {**GOOD, "timestamp": 1760587666509217}
    later = {**row, "timestamp": 1760587668095002}
    bare = written(tmp_path / "bare.jsonl", row, later)
    declared = written(tmp_path / "declared.jsonl", row, later, meta={"time_unit": "us"})

    assert "Unix time in us" in failure(bare).what
    assert read_trace(declared).requests[1].arrival_us == 1_585_785


def test_absolute_ms_count_from_the_first_row(tmp_path: Path) -> None:
    """Unix time in ms does not wait 54 years."""
    path = written(tmp_path / "t.jsonl", *({**GOOD, "timestamp": 1700158500000 + i} for i in (0, 7)))

    assert [r.arrival_us for r in read_trace(path).requests] == [0, 7000]


def test_seconds_with_decimals_are_rounded_not_cut(tmp_path: Path) -> None:
    """61.114 s is 61,114,000 us."""
    path = written(tmp_path / "t.jsonl", GOOD, {**GOOD, "timestamp": 61.114}, meta={"time_unit": "s"})

    assert read_trace(path).requests[1].arrival_us == 61_114_000


def test_a_span_beyond_the_clock_is_refused(tmp_path: Path) -> None:
    """Times that do not fit 64-bit nanoseconds are refused, however large."""
    path = written(tmp_path / "t.jsonl", GOOD, {**GOOD, "timestamp": 10**16})

    assert "292 years" in failure(path).what
    assert "timestamp is 1E+308" in failure(written(path, GOOD, {**GOOD, "timestamp": 1e308})).what


def test_floor_tail(tmp_path: Path) -> None:
    """With tail floor the rest of a prompt has no id, and a short prompt has none at all."""
    rows = [
        {**GOOD, "input_length": 40, "hash_ids": [1, 2]},
        {**GOOD, "input_length": 47, "hash_ids": [1, 2]},
        {**GOOD, "input_length": 9, "hash_ids": []},
    ]
    meta = {"block_size": 16, "tail": "floor"}
    good = written(tmp_path / "good.jsonl", *rows, meta=meta)
    bad = written(tmp_path / "bad.jsonl", {**GOOD, "input_length": 40, "hash_ids": [1, 2, 3]}, meta=meta)

    assert [r.blocks for r in read_trace(good).requests] == [(0, 1), (0, 1), ()]
    assert "need 48 to 63 tokens" in failure(bad).what


def test_unhashed_tail(tmp_path: Path) -> None:
    """With tail unhashed a prompt may have fewer ids than whole blocks, but not more, and not none."""
    meta = {"block_size": 16, "tail": "unhashed"}
    good = written(tmp_path / "good.jsonl", {**GOOD, "input_length": 100, "hash_ids": [1]}, meta=meta)
    many = written(tmp_path / "many.jsonl", {**GOOD, "input_length": 17, "hash_ids": [1, 2]}, meta=meta)
    none = written(tmp_path / "none.jsonl", {**GOOD, "input_length": 17, "hash_ids": []}, meta=meta)

    assert read_trace(good).requests[0].blocks == (0,)
    assert "need 32 or more tokens" in failure(many).what
    assert failure(none).what == "hash_ids is []"


def test_session_scope_keeps_sessions_apart(tmp_path: Path) -> None:
    """Ids of session scope are equal within a session only; turns are counted by session."""
    rows = [{**GOOD, "session_id": session} for session in ("a", "b", "a")]
    path = written(tmp_path / "t.jsonl", *rows, meta={"hash_scope": "session"})

    requests = read_trace(path).requests

    assert [(r.session, r.turn, r.blocks) for r in requests] == [("a", 0, (0, 1)), ("b", 0, (2, 3)), ("a", 1, (0, 1))]


def mutated_rows() -> st.SearchStrategy[bytes]:
    """Rows whose values are any JSON value, Python's NaN and Infinity included."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
    values = scalars | st.lists(scalars, max_size=3)
    return st.fixed_dictionaries({}, optional=dict.fromkeys([*GOOD, "session_id"], values)).map(
        lambda change: json.dumps(GOOD | change).encode()
    )


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9),
            st.integers(1, 4),
            st.integers(1, 512),
            st.integers(1, 99),
            st.sampled_from(["", "s"]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_what_is_written_is_read_back(scratch: Path, drawn: list[tuple[int, int, int, int, str]]) -> None:
    """Writing and reading a trace gives the same rows, whatever their times, lengths and sharing."""
    names: dict[tuple[object, ...], int] = {}
    turns = {"": 0, "s": 0}
    first = min(time for time, *_ in drawn)
    rows = []
    for row, (time, blocks, tail, output, session) in enumerate(sorted(drawn)):
        keys = [("whole", i) for i in range(blocks - 1)] + [("last", blocks, tail)]
        ids = tuple(names.setdefault(key, len(names)) for key in keys)
        turn = turns[session] if session else 0
        turns[session] += 1
        rows.append(TraceRequest(row, session, turn, time - first, 512 * (blocks - 1) + tail, output, ids))

    meta = write_trace(scratch, rows, Sidecar(provenance="converted"))

    assert list(read_trace(scratch).requests) == rows
    assert meta.sha256 == hashlib.sha256(scratch.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file without a sidecar that every drawn example writes anew."""
    return tmp_path_factory.mktemp("noise") / "t.jsonl"


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=80), mutated_rows()))
def test_any_bytes_are_a_trace_or_a_trace_error(noisy: Path, noise: bytes) -> None:
    """Whatever is in a file, reading it ends in a trace or in a TraceError."""
    noisy.write_bytes(json.dumps(GOOD).encode() + b"\n" + noise)
    try:
        where = read_trace(noisy).source
    except TraceError as error:
        where = error.where

    assert where.startswith(str(noisy))


@pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not beside this checkout")
def test_reads_the_public_mooncake_trace() -> None:
    """Mooncake's own conversation trace is read whole and is what its authors describe."""
    trace = read_trace(SHARED / "mooncake_conversation.jsonl")

    assert len(trace.requests) == 12_031
    assert round(trace.requests[-1].arrival_us / 1e6) == 3537
    assert max(request.input_tokens for request in trace.requests) == 126_195


@pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not beside this checkout")
def test_refuses_the_malformed_public_sample() -> None:
    """A sample published with three ids for 1,024 tokens is refused at its line."""
    with pytest.raises(TraceError, match="hash_ids"):
        read_trace(SHARED / "aiperf_0.13.0_template_production_trace.jsonl")
