"""Traces out of other formats, and what peers are told."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import TraceError
from harness.trace import PEERS, ReadOptions, convert, read_trace, sidecar_path
from tests.fakes.traces import SHARED, hit_tokens, jsonl, lines, row


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose files every drawn example writes anew."""
    return tmp_path_factory.mktemp("drawn")


def a_count(tokens: int, size: int, tail: str) -> int:
    """How many ids a prompt of this length has; as many as may be where any number will do."""
    return -(-tokens // size) if tail == "ceil" else tokens // size


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 3_000_000), st.integers(1, 60), st.integers(0, 3), st.sampled_from(["", "s"])),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["ceil", "floor", "unhashed"]),
    st.integers(1, 20),
    st.booleans(),
)
def test_a_round_trip_keeps_the_hits(
    scratch: Path, drawn: list[tuple[int, int, int, str]], tail: str, size: int, strict: bool
) -> None:
    """Case 28: whatever the order, block size and tail rule, what is written is read back with the same hit tokens."""
    rows = []
    for time_us, tokens, stem, session in drawn:
        count = a_count(tokens, size, tail)
        last = min(size, tokens - (count - 1) * size)
        ids = [f"{stem}/{place}" for place in range(count - 1)] + [f"{stem}/{count - 1}/{last}"] * bool(count)
        one = row(timestamp=time_us, input_length=tokens, hash_ids=ids)
        rows.append(one | ({"session_id": session} if session else {}))
    meta: dict[str, object] = {"time_unit": "us", "block_size": size, "tail": tail, "hash_kind": "content"}
    source = jsonl(scratch / "in.jsonl", *rows, meta=meta)
    options = ReadOptions(allow_unhashed=True)

    result = convert(source, scratch / "out.jsonl", options=options, strict=strict)

    before, after = (read_trace(path, None, options) for path in (source, scratch / "out.jsonl"))
    assert hit_tokens(after.requests, size) == hit_tokens(before.requests, size)
    assert [one.input_tokens for one in after.requests] == [one.input_tokens for one in before.requests]
    assert result.sidecar.rows == len(rows)
    if strict:
        assert all(len(one.blocks) == -(-one.input_tokens // size) for one in after.requests)
    else:
        assert [(one.arrival_us, one.session, one.turn) for one in after.requests] == [
            (one.arrival_us, one.session, one.turn) for one in before.requests
        ]


def test_native_rows_are_compact_and_complete(tmp_path: Path) -> None:
    """Native rows have their keys in order, no blanks, us to the last digit, and a final newline."""
    rows = [
        row(timestamp=1700158500000.25, session_id="a", request_id="r"),
        row(timestamp=1700158500001.5, session_id="a", delay=0.5),
    ]
    source = jsonl(tmp_path / "in.jsonl", *rows)

    convert(source, tmp_path / "out.jsonl")

    assert (tmp_path / "out.jsonl").read_text() == (
        '{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[0,1],"session_id":"a","request_id":"r"}\n'
        '{"timestamp":1.25,"input_length":600,"output_length":5,"hash_ids":[0,1],"session_id":"a","delay":0.5}\n'
    )


def test_strict_rows_have_four_keys(tmp_path: Path) -> None:
    """Strict rows have Mooncake's four keys, whole ms, and ids for every token."""
    rows = [row(timestamp=0, session_id="a"), row(timestamp=0.5, hash_ids=[7], input_length=600)]
    source = jsonl(tmp_path / "in.jsonl", *rows, meta={"tail": "unhashed", "block_size": 256})

    convert(source, tmp_path / "out.jsonl", strict=True)

    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [list(one) for one in written] == [["timestamp", "input_length", "output_length", "hash_ids"]] * 2
    assert [(one["timestamp"], one["hash_ids"]) for one in written] == [(0, [0, 1, 2]), (1, [0, 3, 4])]


def test_strict_turns_are_whole_prompts(tmp_path: Path) -> None:
    """Case 38: turns that count only what is new become prompts that hold the turns before, as four keys must say."""
    rows = [row(session_id="a", input_length=length, hash_ids=[]) for length in (1000, 1200)]
    source = jsonl(tmp_path / "in.jsonl", *rows, meta={"turn_lengths": "delta"})

    result = convert(source, tmp_path / "out.jsonl", options=ReadOptions(allow_unhashed=True), strict=True)

    requests = read_trace(tmp_path / "out.jsonl").requests
    assert [one.input_tokens for one in requests] == [1000, 1000 + 5 + 1200]
    assert hit_tokens(requests, 512) == [0, 512]
    assert result.sidecar.turn_lengths == "cumulative"


def test_the_sidecar_tells_the_whole_story(tmp_path: Path) -> None:
    """What was dropped, sorted, raised and assumed is in the sidecar; a converted trace is called converted."""
    rows = [row(timestamp=5), row(timestamp=1, output_length=0), row(timestamp="x"), row(timestamp=2, hash_ids=[])]
    source = jsonl(tmp_path / "in.jsonl", *rows)
    options = ReadOptions(on_bad_row="skip", zero_output="one", allow_unhashed=True)

    result = convert(source, tmp_path / "out.jsonl", "mooncake", options)
    sidecar = json.loads(sidecar_path(tmp_path / "out.jsonl").read_text())

    assert (sidecar["rows"], sidecar["provenance"], sidecar["hash_scope"]) == (3, "converted", "global")
    assert sidecar["dropped"] == {"timestamp: not a value it can have": 1}
    assert sidecar["notes"] == result.sidecar.notes
    for words in ("read as mooncake", "2 rows came after", "1 rows say nothing", "1 outputs of no token"):
        assert words in sidecar["notes"]


def test_nothing_is_written_of_a_bad_trace(tmp_path: Path) -> None:
    """A trace that cannot be read leaves no file, whole or in part, and never overwrites itself."""
    source = jsonl(tmp_path / "in.jsonl", row(), row(output_length=0))
    with pytest.raises(TraceError, match="output_length is 0"):
        convert(source, tmp_path / "out.jsonl")
    with pytest.raises(TraceError, match="over itself"):
        convert(source, tmp_path / "." / "in.jsonl")
    with pytest.raises(TraceError, match="cannot write"):
        convert(jsonl(tmp_path / "good.jsonl", row()), tmp_path / "none" / "out.jsonl")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.jsonl", "in.jsonl"]


def test_dates_become_ms(tmp_path: Path) -> None:
    """Azure's dates become ms from the first row, to the us."""
    source = lines(
        tmp_path / "in.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:17:03.9799600,10,1",
        "2023-11-16 18:17:04.0319605,20,2",
    )
    options = ReadOptions(allow_unhashed=True)

    result = convert(source, tmp_path / "out.jsonl", options=options)

    assert result.sidecar.licence == "CC-BY-4.0"
    assert [one.arrival_us for one in read_trace(tmp_path / "out.jsonl", None, options).requests] == [0, 52_001]


@pytest.mark.parametrize("peer", PEERS)
def test_peers_are_told(tmp_path: Path, peer: str) -> None:
    """Cases 2, 3 and 21: the unit and the block size go to the peer with the file, in its own words."""
    source = jsonl(tmp_path / "in.jsonl", row(input_length=70, hash_ids=[1, 2]), meta={"block_size": 64})

    told = "\n".join(convert(source, tmp_path / "out.jsonl", peer=peer).how_to_read)  # type: ignore[arg-type]

    expected = {
        "vllm": "--timed-trace-chunk-hash-size 64 --timed-trace-sec-multiplier 0.001 --self-timed",
        "guidellm": "time_scale=0.001",
        "aiperf": "--isl-block-size 64",
    }
    assert expected[peer] in told
    assert str(tmp_path / "out.jsonl") in told


def test_vllm_has_the_flags_it_is_told() -> None:
    """Every flag for vLLM is one that the installed vLLM defines."""
    datasets = pytest.importorskip("importlib.util").find_spec("vllm")
    if datasets is None:
        pytest.skip("vLLM is not installed")
    code = "".join(
        (Path(datasets.origin).parent / "benchmarks" / name).read_text()
        for name in ("datasets/datasets.py", "serve.py")
    )
    told = convert_flags()

    assert told
    assert [flag for flag in told if f'"{flag}"' not in code] == []


def convert_flags() -> list[str]:
    """The flags in what vLLM is told."""
    from harness.trace.peers import how_to_read  # noqa: PLC0415
    from harness.trace.sidecar import Sidecar  # noqa: PLC0415

    return re.findall(r"--[a-z-]+", " ".join(how_to_read("vllm", Path("t.jsonl"), Sidecar(rows=1))[:2]))


@pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not beside this checkout")
@pytest.mark.parametrize("strict", [False, True])
def test_public_traces_convert(tmp_path: Path, strict: bool) -> None:
    """Case 28: a published WEKA conversation hits as much after conversion as before."""
    source = SHARED / "weka_trace_0057.json"

    convert(source, tmp_path / "out.jsonl", strict=strict)

    before, after = read_trace(source), read_trace(tmp_path / "out.jsonl")
    assert hit_tokens(after.requests, 64) == hit_tokens(before.requests, 64)
    assert sum(hit_tokens(after.requests, 64)) > 0
