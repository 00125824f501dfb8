"""Run folders that are not as they should be, and every verb that opens one: one block on stderr, or no harm done."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import harness
from harness.cli.main import main
from harness.errors import HarnessError
from tests.fakes.folders import written
from tests.fakes.runs import FakePass, fake_run

TRUTH = [float(ms) for ms in np.random.default_rng(1).gamma(40, 5, size=120)]
COLUMNS = {"sent_ns": 5_000_000_000, "done_ns": 130_000_000_000, "e2el_ms": 5.0, "itl_ms": [1.0], "cached_tokens": 64}
Mutilation = Callable[[Path], object]


def meta(change: Callable[[dict[str, Any]], object]) -> Mutilation:
    """A change of run.json."""

    def mutilate(folder: Path) -> None:
        document = json.loads((folder / "run.json").read_text())
        change(document)
        (folder / "run.json").write_text(json.dumps(document))

    return mutilate


def table(name: str, change: Callable[[pa.Table], pa.Table]) -> Mutilation:
    """A change of a parquet file."""

    def mutilate(folder: Path) -> None:
        path = folder / f"{name}.parquet"
        pq.write_table(change(pq.read_table(path)), path)

    return mutilate


def half(name: str) -> Mutilation:
    """A file that was cut."""
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:100])


def replaced(rows: pa.Table, name: str, values: Callable[[int], Any]) -> pa.Table:
    """The table with other values in one column."""
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, name, pa.array([values(row) for row in range(rows.num_rows)]))


REFUSED: dict[str, tuple[Mutilation, str]] = {
    "run.json missing": (lambda folder: (folder / "run.json").unlink(), "run.json is missing"),
    "run.json half written": (half("run.json"), "cannot read run.json"),
    "run.json with a NaN": (meta(lambda one: one.update(probe={"prefill_tokens_per_s": math.nan})), "NaN"),
    "run.json of another shape": (meta(lambda one: one.update(spec=[1])), "spec is no mapping"),
    "requests missing": (lambda folder: (folder / "requests.parquet").unlink(), "requests.parquet is missing"),
    "samples half written": (half("samples.parquet"), "cannot read samples.parquet"),
    "a newer schema": (meta(lambda one: one.update(schema_version=99)), "newer kvreplay: format 99"),
    "an older schema": (meta(lambda one: one.update(schema_version=0)), "older kvreplay: format 0"),
    "a newer table": (
        table("passes", lambda rows: rows.replace_schema_metadata({"schema_version": "99"})),
        "newer kvreplay: format 99",
    ),
    "a table of another tool": (
        table("requests", lambda rows: rows.replace_schema_metadata({})),
        "not written by kvreplay",
    ),
    "a column missing": (table("requests", lambda rows: rows.drop_columns(["ttft_ms"])), "no column 'ttft_ms'"),
    "a column of text": (
        table("requests", lambda rows: replaced(rows, "ttft_ms", lambda _: "fast")),
        "column 'ttft_ms' of requests.parquet holds no double",
    ),
    "a run that never ended": (meta(lambda one: one.update(status="running")), "its status is 'running'"),
}
BORNE: dict[str, Mutilation] = {
    "an arm missing": table("requests", lambda rows: rows.filter(pc.not_equal(rows["arm"], "valkey-1"))),
    "zero successes": table(
        "requests", lambda rows: replaced(replaced(rows, "outcome", lambda _: "timeout"), "ttft_ms", lambda _: None)
    ),
    "no request": table("requests", lambda rows: rows.slice(0, 0)),
    "NaN and infinity": table(
        "requests",
        lambda rows: replaced(
            replaced(rows, "ttft_ms", lambda row: [math.nan, math.inf, -math.inf, 7.0][row % 4]),
            "itl_ms",
            lambda _: [math.nan, math.inf, 3.0],
        ),
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good run of two arms."""
    run = fake_run(
        [FakePass("recompute", TRUTH, columns=COLUMNS), FakePass("valkey-1", [ms / 2 for ms in TRUTH], columns=COLUMNS)]
    )
    return written(run, tmp_path / "results")


def commands(folder: Path, out: Path) -> Iterator[list[str]]:
    """Every verb that opens a run folder."""
    run = str(folder)
    yield ["report", run]
    yield ["compare", f"{run}:recompute", f"{run}:valkey-1", "--json"]
    yield ["gate", run, "--baseline", run, "--json"]
    yield ["gate", run, "--history", str(out / "history.parquet"), "--json"]
    yield ["timeline", run, "--arm", "recompute", "--json"]
    for to in ("vllm-json", "aiperf-jsonl", "csv", "llm-d-report"):
        yield ["export", run, "--to", to, "--out", str(out / to), "--arm", "recompute"]


@pytest.fixture
def kvreplay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The command line: its exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kvreplay", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, folder: Path, tmp_path: Path, kvreplay: Callable[..., tuple[int, str, str]]) -> None:
    """Exit 2 and one block: what, where, what to do. Nothing is written; the index has a line that says why."""
    mutilate, says = REFUSED[name]
    mutilate(folder)
    before = sorted(folder.rglob("*"))
    for words in commands(folder, tmp_path):
        code, out, err = kvreplay(*words)
        assert (code, out) == (2, ""), words
        assert re.fullmatch(r"error: [^\n]*\n  where: [^\n]*\n  to do: [^\n]*\n", err), err
        assert says in err
    with pytest.raises(HarnessError, match=re.escape(says)):
        harness.load_run(folder)
    assert sorted(folder.rglob("*")) == before
    code, out, _ = kvreplay("index", str(tmp_path / "results"))
    assert code == 0
    assert "</html>" in Path(out.strip()).read_text()


@pytest.mark.parametrize("name", BORNE)
def test_borne(name: str, folder: Path, tmp_path: Path, kvreplay: Callable[..., tuple[int, str, str]]) -> None:
    """What is missing is said; no number that is none reaches a page, a document or an export."""
    BORNE[name](folder)
    for words in commands(folder, tmp_path):
        code, out, err = kvreplay(*words)
        assert code in {0, 2, 3, 4}, (words, err)
        assert code != 2 or err.startswith("error: "), err
        if "--json" in words and code != 2:
            json.loads(out, parse_constant=pytest.fail)
    assert len(harness.load_run(folder).requests) == pq.read_metadata(folder / "requests.parquet").num_rows
    json.loads((folder / "summary.json").read_text(), parse_constant=pytest.fail)
    page = re.sub(
        r"<script.*?</script>",
        lambda found: found[0] if len(found[0]) < 1_000_000 else "",
        (folder / "report.html").read_text(),
        flags=re.DOTALL,
    )
    for text in (page, (folder / "report.md").read_text()):
        assert not re.search(r"\b(NaN|nan|Infinity|inf)\b", text)
    exports = [tmp_path / to for to in ("vllm-json", "aiperf-jsonl", "csv", "llm-d-report") if (tmp_path / to).exists()]
    for export in exports:
        assert not re.search(r'(?<!")\b(NaN|nan|Infinity|inf)\b', export.read_text()), export
