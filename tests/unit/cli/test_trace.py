"""Promises of `kvreplay trace`: exit codes, one JSON document, one block for an error."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.trace import SHIPPED, read_trace

WORKLOADS = Path(__file__).parents[3] / "workloads"
ROW = '{{"timestamp":{0},"input_length":600,"output_length":5,"hash_ids":[7,{1}]}}\n'

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command's exit code, stdout and stderr."""

    def trace(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kvreplay", "trace", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return trace


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Three rows that share a block."""
    path = tmp_path / "good.jsonl"
    path.write_text("".join(ROW.format(i * 500, 8 + i) for i in range(3)))
    return path


def document(text: str) -> dict[str, Any]:
    """The one JSON document on stdout."""
    found: dict[str, Any] = json.loads(text)
    return found


def test_check_of_a_good_trace_is_fine(run: Run, good: Path) -> None:
    """Exit 0, the guess and the counts that reconcile in the text."""
    code, out, err = run("check", good)

    assert (code, err) == (0, "")
    assert out.startswith(f"{good}\n  read as mooncake (guessed), no sidecar")
    assert "3 read = 3 kept + 0 dropped" in out
    assert out.endswith("\nfine\n")


def test_check_of_the_shipped_traces_is_fine(run: Run) -> None:
    """What we ship has no warning, and says what it says of itself."""
    for name in SHIPPED:
        code, out, _ = run("check", WORKLOADS / f"{name}.jsonl", "--json")
        found = document(out)
        assert (code, found["verdict"], found["warnings"]) == (0, "fine", [])
        assert (found["rows"], found["reading"]["sidecar"]) == (683, True)
        assert found["sharing"]["by_tokens"] == pytest.approx(0.8931, abs=1e-4)


@pytest.mark.parametrize(
    ("rows", "options", "kinds"),
    [
        (
            [ROW.format(0, 8), "{}\n", ROW.format(900, 9)],
            ["--on-bad-row", "skip", "--format", "mooncake"],
            ["rows_dropped"],
        ),
        ([ROW.format(900, 8), ROW.format(0, 9)], [], ["unsorted"]),
        ([ROW.format(0, 8), ROW.format(0, 9)], [], ["one_time"]),
        ([ROW.format(0, 8), ROW.format(0, 9), ROW.format(3000, 10)], [], ["coarse_times"]),
        (
            [
                '{"timestamp":0,"input_length":9,"output_length":1}\n',
                '{"timestamp":1,"input_length":9,"output_length":1}\n',
            ],
            [],
            ["no_ids"],
        ),
        ([ROW.format(0, 8), ROW.format(1, 9).replace("[7", "[6")], [], ["nothing_shared"]),
        (
            [ROW.format(0, 8), ROW.format(1, 9).replace('"output_length":5', '"output_length":0')],
            ["--zero-output", "one"],
            ["outputs_raised"],
        ),
        ([ROW.format(0, 8), ROW.format(1, 9)], ["--block-size", "500"], ["blocks_do_not_fit", "blocks_do_not_fit"]),
    ],
)
def test_check_warns(run: Run, tmp_path: Path, rows: list[str], options: list[str], kinds: list[str]) -> None:
    """Exit 1, each warning with its kind, its words and what to do; counts reconcile."""
    path = tmp_path / "t.jsonl"
    path.write_text("".join(rows))
    code, out, _ = run("check", path, "--json", *options)
    found = document(out)

    assert (code, found["verdict"]) == (1, "warnings")
    assert [warning["kind"] for warning in found["warnings"]] == kinds
    assert all(warning["text"] and warning["remedy"] for warning in found["warnings"])
    reading = found["reading"]
    assert reading["read"] == len(rows) == reading["kept"] + sum(reading["dropped"].values())
    assert found["rows"] == reading["kept"]
    assert run("check", path, *options)[0] == 1


def test_check_of_a_wrong_trace_is_one_block_or_one_document(run: Run, good: Path) -> None:
    """Exit 2 either way: what, where (file:line), what to do."""
    good.write_text(good.read_text() + ROW.format("-1", 9))
    code, out, err = run("check", good)

    assert (code, out) == (2, "")
    assert err.startswith(f"error: timestamp is -1\n  where: {good}:4\n  to do: ")
    code, out, err = run("check", good, "--json")
    assert (code, err) == (2, "")
    assert document(out)["verdict"] == "wrong"
    assert document(out)["error"]["where"] == f"{good}:4"


@pytest.mark.parametrize("content", [b"", b"\n", b"\x7fELF\x00\x01\x02\n\x00", b"\x1f\x8b\x08\x00broken"])
def test_what_is_no_trace_is_wrong(run: Run, tmp_path: Path, content: bytes) -> None:
    """Nothing, a binary file, a broken gzip: exit 2 and one block."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    code, out, err = run("check", path)

    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert str(path) in err


def test_stats_describes_without_a_verdict(run: Run, tmp_path: Path) -> None:
    """Exit 0 where `check` warns, with the same figures; 2 where there is nothing to read."""
    path = tmp_path / "t.jsonl"
    path.write_text(ROW.format(900, 8) + ROW.format(0, 9))
    code, out, _ = run("stats", path, "--json")
    checked = document(run("check", path, "--json")[1])

    assert code == 0
    assert document(out) == {name: value for name, value in checked.items() if name not in {"verdict", "warnings"}}
    assert run("stats", tmp_path / "none.jsonl")[0] == 2


def test_convert_writes_a_trace_that_check_finds_fine(run: Run, tmp_path: Path) -> None:
    """From a CSV with a column map to Mooncake's rows; the file says how a peer reads it; nothing else is printed."""
    table = tmp_path / "t.csv"
    table.write_text("at,n_in,n_out,ids\n1.5,600,5,7 8\n2.25,600,5,7 9\n")
    out = tmp_path / "out.jsonl"
    columns = ("timestamp=at", "input_length=n_in", "output_length=n_out", "hash_ids=ids")
    options = [part for column in columns for part in ("--column", column)]
    code, text, err = run(
        "convert", table, out, "--from", "csv", "--time-unit", "s", "--block-size", "512", "--for", "vllm", *options
    )

    assert code == 0, err
    assert "2 read = 2 kept + 0 dropped" in text
    assert "--timed-trace-chunk-hash-size 512 --timed-trace-sec-multiplier 0.001" in text
    assert [one.arrival_us for one in read_trace(out).requests] == [0, 750_000]
    assert run("check", out)[0] == 0


def test_convert_refuses_what_it_does_not_know(run: Run, good: Path, tmp_path: Path) -> None:
    """Another format or peer, a column without a name, a file over itself: exit 2, nothing written."""
    out = tmp_path / "out.jsonl"
    for options in (["--from", "parquet"], ["--for", "sglang"], ["--column", "timestamp"]):
        assert run("convert", good, out, *options)[0] == 2
    assert run("convert", good, good)[0] == 2
    assert not out.exists()


def test_make_without_options_makes_the_shipped_trace(run: Run, tmp_path: Path) -> None:
    """Byte for byte, sidecar included; the siblings by their names."""
    for name in SHIPPED:
        options = [] if name == "trace-16k-683" else ["--kind", name]
        assert run("make", tmp_path / f"{name}.jsonl", *options)[0] == 0
        for suffix in (".jsonl", ".meta.json"):
            assert (tmp_path / name).with_suffix(suffix).read_bytes() == (WORKLOADS / name).with_suffix(
                suffix
            ).read_bytes()


def test_make_takes_sizes_orders_and_times(run: Run, tmp_path: Path, good: Path) -> None:
    """Shared prefixes in an order and with times of another trace, and documents in passes."""
    out = tmp_path / "made.jsonl"
    code, text, err = run(
        "make", out, "--prefixes", 2, "--prefix-tokens", 512, "--suffix-tokens", 9, "--output-tokens", "3-4",
        "--order", "zipf", "--zipf-exponent", 2, "--arrivals-from", good, "--seed", 5,
    )  # fmt: skip
    assert code == 0, err
    trace = read_trace(out)
    assert [one.arrival_us for one in trace.requests] == [0, 500_000, 1_000_000]
    assert {one.input_tokens for one in trace.requests} == {521}
    assert "3 read = 3 kept" in text

    code, _, err = run(
        "make", out, "--kind", "passes", "--documents", 3, "--document-tokens", 512, "--question-tokens", 4,
        "--output-tokens", 2, "--order", "first,reverse", "--arrivals", "deterministic", "--rate", 10,
    )  # fmt: skip
    assert code == 0, err
    assert [one.blocks[0] for one in read_trace(out).requests] == [0, 3, 6, 6, 3, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kind", "other"], "--kind other"),
        (["--documents", 3], "--documents means nothing for --kind shared-prefix"),
        (["--kind", "passes", "--prefixes", 3], "--prefixes means nothing for --kind passes"),
        (["--suffix-tokens", "a-b"], "--suffix-tokens a-b"),
        (["--prefix-tokens", 1000], "prefix_tokens is 1000"),
        (["--arrivals", "poisson"], "arrivals is poisson"),
        (["--rate", 0], "rate is 0.0"),
    ],
)
def test_make_refuses_what_makes_no_trace(run: Run, tmp_path: Path, options: list[object], words: str) -> None:
    """Exit 2, the option named, nothing written."""
    code, _, err = run("make", tmp_path / "t.jsonl", *options)

    assert code == 2
    assert words in err
    assert not (tmp_path / "t.jsonl").exists()
