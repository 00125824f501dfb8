"""JSON traces other than Mooncake's: Bailian, WEKA, LMCache's agents and its lookup-hash log."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import TraceError
from harness.trace import ReadOptions, read_trace
from harness.trace.lmcache_agent import load_tokenizer, prefix_ids
from tests.fakes.traces import SHARED, hit_tokens, jsonl

needs_public_traces = pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not beside this checkout")
DROP = ReadOptions(zero_output="drop")


def letters(text: str) -> list[int]:
    """A tokenizer of one token a byte."""
    return list(text.encode())


def chat(**changes: Any) -> dict[str, Any]:
    """A row of Bailian's README, shortened."""
    whole = {"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 16, "output_length": 1, "turn": 1}
    return whole | {"type": "text", "hash_ids": [1]} | changes


def test_bailian_is_in_seconds(tmp_path: Path) -> None:
    """Case 4: 61.114 s is 61,114 ms to the us, in blocks of 16 with the last in part."""
    path = jsonl(tmp_path / "t.jsonl", chat(), chat(chat_id=2, timestamp=61.2, input_length=17, hash_ids=[1, 5]))

    trace = read_trace(path)

    assert trace.report is not None
    assert (trace.report.format, trace.report.zero_us, trace.block_size) == ("bailian", 61_114_000, 16)
    assert [(one.arrival_us, one.blocks) for one in trace.requests] == [(0, (0,)), (86_000, (0, 1))]


def test_bailians_chats_are_sessions(tmp_path: Path) -> None:
    """A chat is in the session of its oldest ancestor in the file; turns count in order of time."""
    rows = [
        chat(chat_id=1),
        chat(chat_id=2, parent_chat_id=1),
        chat(chat_id=3, parent_chat_id=2),
        chat(chat_id=9, parent_chat_id=8),
    ]

    requests = read_trace(jsonl(tmp_path / "t.jsonl", *rows)).requests

    assert [(one.session, one.turn) for one in requests] == [("1", 0), ("1", 1), ("1", 2), ("8", 0)]


@pytest.mark.parametrize(
    "change", [{"chat_id": -1}, {"parent_chat_id": "x"}, {"timestamp": "61.1"}, {"input_length": 17}]
)
def test_bailians_bad_rows(tmp_path: Path, change: dict[str, Any]) -> None:
    """A value that cannot be is refused with its line."""
    path = jsonl(tmp_path / "t.jsonl", chat(), chat(**change))
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert caught.value.where == f"{path}:2"


def talk(name: str = "c", *requests: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A conversation as WEKA writes it."""
    head = {"id": name, "models": ["m"], "block_size": 64, "hash_id_scope": "local", "tool_tokens": 70}
    return head | {"system_tokens": 58, "requests": list(requests)} | changes


def ask(t: float = 0, tokens: int = 200, **changes: Any) -> dict[str, Any]:
    """A request of a conversation: floor(n / 64) ids."""
    whole = {"t": t, "type": "n", "in": tokens, "out": 7, "hash_ids": list(range(1, tokens // 64 + 1)), "stop": ""}
    return whole | changes


def test_wekas_local_ids_are_not_merged(tmp_path: Path) -> None:
    """Case 29: two conversations that both use ids from 1 share nothing, unless their scope is global."""
    local = jsonl(tmp_path / "a.jsonl", talk("x", ask(), ask(9)), talk("y", ask()))
    world = jsonl(tmp_path / "b.jsonl", *(talk(name, ask(), hash_id_scope="global") for name in ("x", "y")))

    assert [one.blocks for one in read_trace(local).requests] == [(0, 1, 2), (3, 4, 5), (0, 1, 2)]
    assert [one.blocks for one in read_trace(world).requests] == [(0, 1, 2), (0, 1, 2)]


def test_wekas_warm_prefix_is_a_choice(tmp_path: Path) -> None:
    """Case 29: on request, tools and system prompt (128 tokens, two blocks) are shared, and nothing behind them."""
    path = jsonl(tmp_path / "t.jsonl", talk("x", ask()), talk("y", ask()))

    requests = read_trace(path, None, ReadOptions(warm_prefix=True)).requests

    assert [one.blocks for one in requests] == [(0, 1, 2), (0, 1, 3)]


def test_wekas_length_is_read_not_derived(tmp_path: Path) -> None:
    """Case 31: a prompt is as long as its row says, and ids follow the declared tail: floor here, or ceil."""
    floor = jsonl(tmp_path / "a.jsonl", talk("x", ask(tokens=200)))
    ceil = jsonl(tmp_path / "b.jsonl", talk("x", ask(tokens=200, hash_ids=[1, 2, 3, 4])))

    assert read_trace(floor).requests[0].input_tokens == 200
    assert read_trace(ceil, None, ReadOptions(tail="ceil")).requests[0].blocks == (0, 1, 2, 3)
    with pytest.raises(TraceError, match="4 ids, which need 256 to 319 tokens"):
        read_trace(ceil)


def test_wekas_turns_and_think_times(tmp_path: Path) -> None:
    """A conversation is a session; think_time is the delay of a turn; optional keys may be missing."""
    path = jsonl(tmp_path / "t.jsonl", talk("x", ask(think_time=0.0), ask(15.5, think_time=5.25), ask(20)))

    requests = read_trace(path).requests

    assert [(one.session, one.turn, one.arrival_us, one.delay_us) for one in requests] == [
        ("x", 0, 0, None),
        ("x", 1, 15_500_000, 5_250_000),
        ("x", 2, 20_000_000, None),
    ]


@pytest.mark.parametrize(("choice", "arrival_us"), [("relative", 12_000_000), ("absolute", 2_000_000)])
def test_wekas_subagents_are_a_choice(tmp_path: Path, choice: str, arrival_us: int) -> None:
    """Subagents are refused, or become sessions of their own whose times count as told."""
    inner = {"t": 10, "type": "subagent", "agent_id": "a1", "requests": [ask(2)]}
    path = jsonl(tmp_path / "t.jsonl", talk("x", ask(), inner))

    trace = read_trace(path, None, ReadOptions(subagents=choice))  # type: ignore[arg-type]

    assert [(one.session, one.arrival_us, one.blocks) for one in trace.requests] == [
        ("x", 0, (0, 1, 2)),
        ("x/a1", arrival_us, (3, 4, 5)),
    ]
    with pytest.raises(TraceError, match="subagent's requests"):
        read_trace(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"block_size": 0},
        {"block_size": "64"},
        {"hash_id_scope": "world"},
        {"requests": {}},
        {"tool_tokens": -1},
        {"id": 5},
    ],
)
def test_wekas_bad_heads(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """A conversation whose head cannot be is refused as a whole, also where bad rows are skipped."""
    path = jsonl(tmp_path / "t.jsonl", talk("x", ask()), talk("y", ask(), **wrong))
    with pytest.raises(TraceError) as caught:
        read_trace(path, None, ReadOptions(on_bad_row="skip"))
    assert caught.value.what.startswith(f"{next(iter(wrong))} is")
    assert caught.value.where == f"{path}:2"


def test_wekas_folder(tmp_path: Path) -> None:
    """A folder of conversations is one trace, file by file in order of name; block sizes must agree."""
    for name, tokens in (("trace_b", 64), ("trace_a", 128)):
        (tmp_path / f"{name}.json").write_text(json.dumps(talk(name, ask(tokens=tokens)), indent=1))

    assert [one.session for one in read_trace(tmp_path).requests] == ["trace_a", "trace_b"]
    (tmp_path / "trace_c.json").write_text(json.dumps(talk("c", ask(), block_size=16)))
    with pytest.raises(TraceError, match="block_size is 16, but 64 elsewhere"):
        read_trace(tmp_path)


@needs_public_traces
def test_public_weka_files() -> None:
    """Cases 29 and 34: published conversations are read as they are; the one with an output of 0 needs a choice."""
    small = read_trace(SHARED / "weka_trace_0057.json")
    hits = hit_tokens(small.requests, 64)

    assert [one.input_tokens for one in small.requests] == [13129, 13619, 13918, 14165, 14354, 14619, 14982, 15225]
    assert sum(hits[1:]) / sum(one.input_tokens for one in small.requests[1:]) > 0.9
    with pytest.raises(TraceError, match="output_length is 0"):
        read_trace(SHARED / "weka_out0_trace_0091.json")
    dropped = read_trace(SHARED / "weka_out0_trace_0091.json", None, DROP).report
    assert dropped is not None
    assert (dropped.read, dropped.kept, dropped.dropped) == (10, 9, {"output_length: 0": 1})
    folder = read_trace(SHARED, "weka", DROP)
    assert (len(folder.requests), {one.session for one in folder.requests}) == (
        20,
        {"trace_0091", "trace_0026", "trace_0057"},
    )


def said(**changes: Any) -> dict[str, Any]:
    """A row of an agent trace."""
    whole = {"timestamp": 1760587666509217, "input": "a" * 20, "output": "b", "session_id": "s"}
    return whole | changes


def test_agent_text_becomes_blocks(tmp_path: Path) -> None:
    """Case 5: Unix times in us; prompts that begin alike share the blocks in which they do, by the given tokenizer."""
    rows = [said(), said(timestamp=1760587668095002, input="a" * 16 + "b" * 20), said(input="b" + "a" * 19)]
    path = jsonl(tmp_path / "t.jsonl", *rows)

    trace = read_trace(path, None, ReadOptions(tokenizer=letters))

    assert trace.report is not None
    assert trace.report.zero_us == 1760587666509217
    assert [(one.arrival_us, one.input_tokens, one.blocks) for one in trace.requests] == [
        (0, 20, (0, 1)),
        (0, 20, (2, 3)),
        (1_585_785, 36, (0, 4, 5)),
    ]
    with pytest.raises(TraceError, match="the trace is text"):
        read_trace(path)
    with pytest.raises(TraceError, match='input is ""'):
        read_trace(jsonl(path, said(input="")), None, ReadOptions(tokenizer=letters))


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2), max_size=20), st.lists(st.integers(0, 2), max_size=20), st.integers(1, 5))
def test_prefix_ids_say_how_far_prompts_agree(one: list[int], other: list[int], size: int) -> None:
    """Two prompts share as many leading ids as blocks in common; a block in part only if both end there."""
    shared = 0
    for start in range(0, min(len(one), len(other)), size):
        if one[: start + size] != other[: start + size]:
            break
        shared += 1

    pairs = zip(prefix_ids(one, size), prefix_ids(other, size), strict=False)
    assert [a == b for a, b in pairs] == [
        place < shared for place in range(min(-(-len(one) // size), -(-len(other) // size)))
    ]


def test_a_tokenizer_is_loaded_from_its_file(tmp_path: Path) -> None:
    """A model's tokenizer.json is used without special tokens; what is none is an error."""
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"a": 5, "b": 6, "?": 7}, unk_token="?")
    whole = tokenizers.Tokenizer(model)
    whole.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    whole.save(str(tmp_path / "tokenizer.json"))

    assert list(load_tokenizer(tmp_path)("b a c")) == [6, 5, 7]
    (tmp_path / "none.json").write_text("{}")
    for path in (tmp_path / "none.json", tmp_path / "missing"):
        with pytest.raises(TraceError, match="no tokenizer"):
            load_tokenizer(path)


@needs_public_traces
def test_public_agent_files() -> None:
    """Cases 9 and 40: the unsorted file is sorted with a count, and the empty one is no trace."""
    options = ReadOptions(tokenizer=letters, zero_output="one")
    trace = read_trace(SHARED / "lmcache_agent_taubench_0986_unsorted.jsonl", None, options)

    assert trace.report is not None
    assert (trace.report.read, trace.report.moved) == (31, 22)
    times = [one.arrival_us for one in trace.requests]
    assert times == sorted(times)
    with pytest.raises(TraceError, match="no rows"):
        read_trace(SHARED / "lmcache_agent_taubench_ea09_EMPTY.jsonl", None, options)


def looked_up(**changes: Any) -> dict[str, Any]:
    """A line of LMCache's lookup-hash log."""
    whole = {"timestamp": 1711929600.123, "request_id": "r1", "model_name": "m", "chunk_size": 256, "seq_len": 600}
    return whole | {"dtypes": ["bfloat16"], "shapes": [[2, 8]], "chunk_hashes": ["0xab", "0xcd"]} | changes


LOG = ReadOptions(output_tokens=32)


def test_a_lookup_log_is_a_trace(tmp_path: Path) -> None:
    """A deployment's own log becomes a trace of whole chunks; its outputs are given; a repeated lookup counts once."""
    rows = [
        looked_up(),
        looked_up(request_id="r2", timestamp=1711929600.1235, chunk_hashes=["0xab", "0xef"]),
        looked_up(),
    ]
    path = jsonl(tmp_path / "lookup.jsonl", *rows)

    trace = read_trace(path, None, LOG)

    assert [(one.request_id, one.arrival_us, one.blocks, one.output_tokens) for one in trace.requests] == [
        ("r1", 0, (0, 1), 32),
        ("r2", 500, (0, 2), 32),
    ]
    assert trace.report is not None
    assert (trace.report.block_size, trace.report.tail, trace.report.dropped) == (
        256,
        "floor",
        {"request looked up again": 1},
    )
    with pytest.raises(TraceError, match="no output lengths"):
        read_trace(path)


def test_lookups_of_two_models_share_nothing(tmp_path: Path) -> None:
    """Hashes of two models are of two caches."""
    path = jsonl(tmp_path / "t.jsonl", looked_up(), looked_up(request_id="r2", model_name="other"))

    assert [one.blocks for one in read_trace(path, None, LOG).requests] == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"chunk_size": 128}, "chunk_size is 128"),
        ({"chunk_hashes": ["ab", "0xcd"]}, 'chunk_hashes[0] is "ab"'),
        ({"chunk_hashes": ["0xab"]}, "1 ids, which need 256 to 511 tokens"),
        ({"seq_len": 0}, "seq_len is 0"),
    ],
)
def test_bad_lookups(tmp_path: Path, change: dict[str, Any], what: str) -> None:
    """A line that is no lookup of this log is refused with its number."""
    path = jsonl(tmp_path / "t.jsonl", looked_up(), looked_up(request_id="r2", **change))
    with pytest.raises(TraceError) as caught:
        read_trace(path, None, LOG)
    assert what in caught.value.what
    assert caught.value.where == f"{path}:2"


def test_a_folder_of_lookup_logs(tmp_path: Path) -> None:
    """A folder of rotated files is one log."""
    for number in (1, 0):
        path = tmp_path / f"lookup_hashes_20260401_14302{number}_00000{number}.jsonl"
        jsonl(path, looked_up(request_id=f"r{number}", timestamp=1711929600 + number))

    assert [one.request_id for one in read_trace(tmp_path, None, LOG).requests] == ["r0", "r1"]
