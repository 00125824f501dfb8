"""harness.store.folder: the run folder and its JSON."""

import json
from pathlib import Path

import pytest

from harness.errors import RunFolderError
from harness.records import SCHEMA_VERSION, Caveat
from harness.store import RunFolder, Status
from harness.store.folder import write_atomically, write_json


def _create(results: Path) -> RunFolder:
    return RunFolder.create(results, "lab", "r1", "20261129T201500Z")


def test_a_new_run_is_running(tmp_path: Path) -> None:
    """A folder is named by experiment, UTC time and id, and says `running` until it is told otherwise."""
    folder = _create(tmp_path)
    assert folder.path == tmp_path / "lab" / "20261129T201500Z-r1"
    assert folder.meta()["status"] == "running"
    assert folder.meta()["schema_version"] == SCHEMA_VERSION


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    """A folder that exists is refused and left as it was."""
    folder = _create(tmp_path)
    folder.update({"plan": "kept"})
    with pytest.raises(RunFolderError) as caught:
        _create(tmp_path)
    assert caught.value.where == str(folder.path)
    assert folder.meta()["plan"] == "kept"


def test_an_update_keeps_what_it_does_not_name(tmp_path: Path) -> None:
    """Fields given replace their namesakes, the rest stays; paths and caveats become plain JSON."""
    folder = _create(tmp_path)
    folder.update({"facts": {"log": tmp_path}, "caveats": [Caveat("late", "sends were late")]}, Status.PARTIAL)
    meta = folder.meta()
    assert (meta["run_id"], meta["status"]) == ("r1", "partial")
    assert meta["facts"] == {"log": str(tmp_path)}
    assert meta["caveats"] == [{"kind": "late", "text": "sends were late", "remedy": "", "arm": "", "evidence": []}]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    """A write that dies half-way changes nothing and leaves no temporary file."""
    path = tmp_path / "run.json"
    write_json(path, {"status": "running"})

    def die(file: object) -> None:
        file.write(b"{")  # type: ignore[attr-defined]
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, die)
    assert json.loads(path.read_text()) == {"status": "running"}
    assert list(tmp_path.iterdir()) == [path]


def test_json_never_holds_a_nan(tmp_path: Path) -> None:
    """A number that JSON cannot say is refused, and the file stays as it was."""
    path = tmp_path / "run.json"
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"ttft_ms": float("nan")})
    assert not path.exists()


def test_logs_are_kept_by_arm(tmp_path: Path) -> None:
    """Each arm has its own folder of logs, and asking twice is fine."""
    folder = _create(tmp_path)
    assert folder.logs("valkey-1") == folder.logs("valkey-1") == folder.path / "logs" / "valkey-1"
    assert folder.logs("valkey-1").is_dir()


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_broken_run_json_names_the_file(tmp_path: Path, text: str) -> None:
    """A run.json that is not a JSON mapping is a RunFolderError that says which file."""
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunFolderError) as caught:
        RunFolder(tmp_path).meta()
    assert caught.value.where == str(tmp_path / "run.json")
