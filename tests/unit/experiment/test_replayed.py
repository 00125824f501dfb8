"""The trace a workload replays, by its config."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.config import TraceReplay
from harness.errors import ConfigError, TraceError
from harness.experiment.replayed import ReplayedTrace, open_names, read_replayed
from harness.trace import Sidecar, Trace, TraceRequest, write_trace

ROWS = tuple(
    TraceRequest(
        i, f"s{i % 3}", i // 3, us, 512 * (i % 2 + 1), 10 + i, (0, i) if i % 2 else (0,), 1_000_000 if i > 2 else None
    )
    for i, us in enumerate((0, 1_000_000, 2_000_000, 219_000_000, 220_000_000, 221_000_000))
)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder with six rows of three sessions in t.jsonl, a gap of 217 s in the middle."""
    write_trace(tmp_path / "t.jsonl", ROWS, Sidecar())
    return tmp_path


def replayed(base: Path, limits: dict[str, int] | None = None, **keys: Any) -> ReplayedTrace:
    """The trace as these keys of a config want it."""
    return read_replayed(TraceReplay.model_validate({"file": "t.jsonl", **keys}), base, "w", limits or {}, seed=0)


def times_s(trace: Trace) -> list[float]:
    """Arrivals."""
    return [one.arrival_us / 1e6 for one in trace.requests]


def test_transforms_are_applied_in_the_order_given(base: Path) -> None:
    """Cap, then speed, then limit; each says what it did, and the keys of their own come after."""
    cut = replayed(base, transforms=[{"gap_cap": "60s"}, {"speedup": 10}, {"limit": 5}], limit=4)

    assert times_s(cut.kept) == [0, 0.1, 0.2, 6.2]
    assert [line.partition(":")[0] for line in cut.log[1:]] == ["gap_cap 60 s", "speedup 10", "limit 5", "limit 4"]
    assert cut.log[:2] == (
        "read as mooncake: 6 rows, 6 kept",
        "gap_cap 60 s: 1 of 5 gaps changed, span 221.000 s -> 64.000 s",
    )
    assert cut.kept.requests[3].delay_us == 100_000


def test_the_keys_of_their_own_are_the_last_transforms(base: Path) -> None:
    """`length_scale`, `limit`, `rate`, `window`, as before there were others."""
    cut = replayed(base, window="1s", rate=2.0, limit=3, length_scale="1/2")

    assert [line.partition(":")[0] for line in cut.log[1:]] == [
        "length_scale 1/2", "limit 3", "rate 2 a second", "window 1 s",
    ]  # fmt: skip
    assert times_s(cut.kept) == [0, 0.5, 1]
    assert (cut.kept.block_size, cut.kept.requests[1].input_tokens) == (256, 512)


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        ({"window": "2s"}, [0, 1, 2]),
        ({"window": {"start": "200s", "length": "20s"}}, [3, 4]),
        ({"limit": 1}, [0]),
        ({"keep_sessions": 1}, [0, 3]),
        ({"keep_sessions": ["s1", "s2"]}, [1, 2, 4, 5]),
        ({"sample_sessions": 1.0}, [0, 1, 2, 3, 4, 5]),
        ({"jitter": "0s"}, [0, 1, 2, 3, 4, 5]),
        ({"length_scale": {"ratio": "1/4", "chunk": 64}}, [0, 1, 2, 3, 4, 5]),
        ({"rate": 3}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_every_transform_can_be_written(base: Path, step: dict[str, Any], rows: list[int]) -> None:
    """Each key of the config is a step, which names itself in the log."""
    cut = replayed(base, transforms=[step])

    assert [one.row for one in cut.kept.requests] == rows
    assert len(cut.log) == 2
    assert cut.log[1].startswith(next(iter(step)))


def test_blocks_keep_their_ids_whatever_is_left_out(base: Path) -> None:
    """Lengths change for the whole trace, so that the rows left can be looked up in it."""
    cut = replayed(base, transforms=[{"keep_sessions": ["s1"]}, {"length_scale": {"ratio": "1/4", "chunk": 64}}])

    whole = {one.row: one.blocks for one in cut.whole.requests}
    assert len(whole) == 6
    assert all(one.blocks == whole[one.row] for one in cut.kept.requests)


def test_what_depends_on_the_machine_waits_for_its_rate(base: Path) -> None:
    """`match-rho` and what follows are done when the rate is known; until then they are named."""
    cut = replayed(base, transforms=[{"limit": 3}, {"rate": "match-rho"}, {"window": "1s"}])

    assert times_s(cut.kept) == [0, 1, 2]
    assert times_s(cut.timed(4.0)[0]) == [0, 0.25, 0.5]
    assert len(cut.timed(1.5)[0].requests) == 2
    assert [line.partition(":")[0] for line in cut.timed(4.0)[1][1:]] == ["limit 3", "rate 4 a second", "window 1 s"]
    assert open_names(cut.open_steps) == ("rate match-rho: set by the probe", "window 1 s: after the rate is set")


def test_the_tightest_limit_decides_what_fits(base: Path) -> None:
    """Row 1 has 1,024 + 11 tokens: by `over_length` it is an error, dropped, or its answer is clipped."""
    limits = {"engine.max_model_len": 4096, "engine.kv_cache_tokens": 1030}
    with pytest.raises(TraceError, match=r"1024 \+ 11 tokens .*; engine\.kv_cache_tokens is 1030"):
        replayed(base, limits)
    dropped, clipped = (replayed(base, limits, over_length=over) for over in ("drop", "clip-output"))

    assert [one.row for one in dropped.kept.requests] == [0, 2, 4]
    assert [one.output_tokens for one in clipped.kept.requests] == [10, 6, 12, 6, 14, 6]
    assert dropped.log[1].startswith("over_length drop, engine.kv_cache_tokens 1030: 6 -> 3 rows, span 221.000 s -> ")


def test_turns_that_count_what_is_new_become_prompts(base: Path) -> None:
    """`turn_lengths` delta in the sidecar: session s0 says 512, answers 10, then adds 1,024."""
    write_trace(base / "t.jsonl", ROWS, Sidecar(turn_lengths="delta"))

    assert [one.input_tokens for one in replayed(base).kept.requests if one.session == "s0"] == [512, 512 + 10 + 1024]


def test_a_trace_that_is_not_there_is_named(base: Path) -> None:
    """With the workload it belongs to."""
    with pytest.raises(ConfigError, match=r"workload w: no such trace: u\.jsonl"):
        read_replayed(TraceReplay(file="u.jsonl"), base, "w", {}, 0)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"transforms": [{"limit": 1, "speedup": 2}]}, "exactly one key"),
        ({"transforms": [{}]}, "exactly one key"),
        ({"transforms": [{"limit": None}]}, "exactly one key"),
        ({"transforms": [{"speedup": 2}, {"gap_cap": "1s"}]}, "write it before speedup and rate"),
        ({"transforms": [{"rate": 2.0}, {"gap_cap": "1s"}]}, "write it before speedup and rate"),
        ({"transforms": [{"rate": "match-rho"}, {"speedup": 2}]}, "speedup after rate: match-rho"),
        ({"transforms": [{"rate": "match-rho"}], "length_scale": "1/2"}, "length_scale after rate: match-rho"),
        ({"transforms": [{"rate": "match-rho"}, {"window": {"start": "1s", "length": "1s"}}]}, "window after rate"),
        ({"transforms": [{"rate": "match-rho"}], "rate": "match-rho"}, "rate after rate"),
        ({"transforms": [{"speedup": 0}]}, "greater than 0"),
        ({"transforms": [{"sample_sessions": 1.5}]}, "less than or equal to 1"),
        ({"over_length": "clip-input"}, "'fail', 'drop' or 'clip-output'"),
    ],
)
def test_transforms_that_make_no_sense_are_refused(keys: dict[str, Any], words: str) -> None:
    """Before any file is read."""
    with pytest.raises(ValidationError, match=words):
        TraceReplay.model_validate({"file": "t.jsonl", **keys})


def test_how_a_trace_is_read_is_chosen_and_said(base: Path) -> None:
    """A trace without block ids is refused unless allowed; what was dropped is in the plan."""
    table = base / "b.csv"
    table.write_text(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,GPT-4,100,10,110,API log\n6,GPT-4,0,0,0,API log\n8,GPT-4,50,10,60,API log\n"
    )
    with pytest.raises(TraceError, match="says nothing of what prompts share"):
        replayed(base, file="b.csv", format="burstgpt")
    cut = replayed(base, file="b.csv", format="burstgpt", allow_unhashed=True)

    assert times_s(cut.kept) == [0, 3]
    assert cut.log[0].startswith(
        "read as burstgpt: 3 rows, 2 kept, 2 of them say nothing of what they share, 1 dropped ("
    )
