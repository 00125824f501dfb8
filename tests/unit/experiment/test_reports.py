"""Reports, comparisons, gates, exports and the index from run folders on disk, good and bad."""

import html
import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import harness
from harness.analysis import Ruling
from harness.errors import HarnessError, IncomparableError, RunFolderError
from harness.experiment.compare import compare_arms
from harness.experiment.export import export_run
from harness.experiment.gate import HISTORY, gate_nights, gate_run
from harness.experiment.index import write_index
from harness.experiment.report import write_reports
from harness.records import Run
from harness.store.history import read_history
from tests.fakes.folders import written
from tests.fakes.runs import FakePass, fake_run

TRUTH = [float(ms) for ms in np.random.default_rng(1).gamma(40, 5, size=120)]


def run_of(factor: float = 1.0, **meta: object) -> Run:
    """Two arms; the second takes half the time of the first."""
    slow = [ms * factor for ms in TRUTH]
    return fake_run([FakePass("recompute", slow), FakePass("valkey-1", [ms / 2 for ms in slow])], **meta)


def test_three_reports_say_the_same(tmp_path: Path) -> None:
    """summary.json, report.md and report.html are written and hold the same verdict."""
    folder = written(run_of(), tmp_path)
    summary = write_reports(folder, limits_ms={"ttft": 200.0})
    document = json.loads((folder / "summary.json").read_text())
    assert document["verdict"]["sentence"] == summary.verdict.sentence
    assert document["slos"] == {"ttft": 200.0}
    assert summary.verdict.sentence in html.unescape((folder / "report.html").read_text())
    assert summary.verdict.word.value in (folder / "report.md").read_text().splitlines()[0]


@pytest.mark.parametrize("missing", ["run.json", "requests.parquet", "passes.parquet"])
def test_half_a_folder(tmp_path: Path, missing: str) -> None:
    """A folder without one of its files is refused, by the file's name, by whatever opens it."""
    folder = written(run_of(), tmp_path)
    (folder / missing).unlink()
    for use in (
        lambda: write_reports(folder),
        lambda: compare_arms(f"{folder}:recompute", f"{folder}:valkey-1", "ttft_ms", ()),
        lambda: gate_run(folder, folder, 0.05, "ttft_ms", ()),
        lambda: harness.load_run(folder),
    ):
        with pytest.raises(RunFolderError, match=missing.partition(".")[0]):
            use()


@pytest.mark.parametrize(("version", "says"), [(0, "older"), (99, "newer")])
def test_another_format(tmp_path: Path, version: int, says: str) -> None:
    """Folders of an older and of a newer kvreplay are told apart."""
    folder = written(run_of(), tmp_path)
    meta = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(meta | {"schema_version": version}))
    with pytest.raises(RunFolderError, match=says):
        write_reports(folder)


@pytest.mark.parametrize("status", ["running", "partial", "failed"])
def test_a_run_that_did_not_end_well(tmp_path: Path, status: str) -> None:
    """It opens only on request, and then its reports carry its status."""
    folder = written(run_of(status=status), tmp_path)
    with pytest.raises(RunFolderError, match=status):
        write_reports(folder)
    kinds = {caveat.kind for caveat in write_reports(folder, allow_incomplete=True).caveats}
    assert "status" in kinds


def test_no_success_at_all(tmp_path: Path) -> None:
    """A run in which every request failed has its three reports, and decides nothing."""
    folder = written(fake_run([FakePass("recompute", [None] * 5), FakePass("valkey-1", [None] * 5)]), tmp_path)
    summary = write_reports(folder)
    assert summary.verdict.word == "undecided"
    assert "5 of 5" in (folder / "report.md").read_text()


def test_load_run(tmp_path: Path) -> None:
    """Notebooks get frames, with due times from each pass's first request."""
    run = harness.load_run(written(run_of(), tmp_path))
    assert list(run.requests.query("arm == 'valkey-1'").due_s[:3]) == [0, 1, 2]
    assert run.meta["experiment"] == "fake"
    assert len(run.requests) == 2 * len(TRUTH)


def test_compare_names(tmp_path: Path) -> None:
    """Arms are named RUN:ARM; another form, an unknown metric and an unknown arm are refused with what would do."""
    folder = written(run_of(), tmp_path)
    (part,) = compare_arms(f"{folder}:recompute", f"{folder}:valkey-1", "ttft_ms", ()).passes
    assert part.p50.value == "lower"
    for a, metric, says in (
        ("recompute", "ttft_ms", "RUN:ARM"),
        (f"{folder}:x", "ttft_ms", "recompute"),
        (f"{folder}:x", "y", "ttft_ms"),
    ):
        with pytest.raises(IncomparableError) as caught:
            compare_arms(a, f"{folder}:valkey-1", metric, ())
        assert says in caught.value.remedy


def test_nights_are_kept_once(tmp_path: Path) -> None:
    """The history has every night once, and the sixth equal night passes."""
    rulings = []
    for night in range(6):
        name = f"2026111{night}T020000Z-{night:06}"
        folder = written(run_of(1 + night / 1000, run_id=f"{night:06}", utc=f"2026111{night}T020000Z"), tmp_path, name)
        rulings.append(gate_nights(folder, tmp_path / HISTORY, 0.05, 14, (), keep=True).ruling)
    assert rulings == [*[Ruling.NOISY] * 5, Ruling.PASSED]
    lines = read_history(tmp_path / HISTORY)
    gate_nights(folder, tmp_path / HISTORY, 0.05, 14, (), keep=True)
    assert len(read_history(tmp_path / HISTORY)) == len(lines)
    assert {line["run_id"] for line in lines} == {f"{night:06}" for night in range(6)}


def test_a_history_that_is_none(tmp_path: Path) -> None:
    """A file that is no history is refused, and left as it is."""
    path = tmp_path / HISTORY
    path.write_text("not parquet")
    with pytest.raises(RunFolderError, match="history"):
        gate_nights(written(run_of(), tmp_path), path, 0.05, 14, (), keep=True)
    assert path.read_text() == "not parquet"


def test_index(tmp_path: Path) -> None:
    """All runs, newest first, whatever state they are in; a folder that cannot be read says why."""
    for night in range(3):
        write_reports(written(run_of(1 + night / 10), tmp_path, f"2026111{night}T020000Z-{night:06}"))
    (tmp_path / "fake" / "20261111T020000Z-000001" / "gate.json").write_text('{"ruling": "regression shown"}')
    written(run_of(status="running"), tmp_path, "20261120T020000Z-ffffff")
    broken = tmp_path / "fake" / "20261121T020000Z-eeeeee"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    page = write_index(tmp_path).read_text()
    order = [
        page.index(text) for text in ("20261121T020000Z", "20261120T020000Z", "20261112T020000Z", "20261110T020000Z")
    ]
    assert order == sorted(order)
    assert "cannot read run.json" in page
    assert page.count("<polyline") == 2
    assert "fake/20261112T020000Z-000002/report.html" in page
    assert 'class="broken"><a href="fake/20261111T020000Z-000001/gate.md">regression shown</a>' in page


def test_index_of_nothing(tmp_path: Path) -> None:
    """An empty folder has an index that says so; one that is not there is refused."""
    assert "No run folder" in write_index(tmp_path).read_text()
    with pytest.raises(RunFolderError):
        write_index(tmp_path / "nowhere")


@pytest.mark.parametrize("to", ["vllm-json", "aiperf-jsonl", "llm-d-report", "csv"])
def test_exports(tmp_path: Path, to: str) -> None:
    """Every format is written for one arm; into a folder that is not there none is."""
    folder = written(run_of(), tmp_path)
    out = tmp_path / "out"
    export_run(folder, to, out, arm="recompute", workload=None, pass_name=None)
    lines = out.read_text().splitlines()
    if to == "csv":
        assert len(lines) == len(TRUTH) + 1
    elif to != "aiperf-jsonl":  # nothing in this run has a time at which it was sent
        json.loads(out.read_text())
    with pytest.raises(HarnessError, match="no such folder"):
        export_run(folder, to, tmp_path / "x" / "out", arm="recompute", workload=None, pass_name=None)


def test_the_incident_picture_in_ten_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/ draws every request of a run that load_run opened, by lookup, an arm beside another."""
    script, picture = Path(__file__).parents[3] / "docs" / "incident_picture.py", tmp_path / "picture.html"
    monkeypatch.setattr("sys.argv", [str(script), str(written(run_of(), tmp_path)), str(picture)])
    runpy.run_path(str(script))
    text = picture.read_text()
    assert "arm=recompute" in text
    assert "not told" in text
