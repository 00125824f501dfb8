"""harness.collect.log_files: following logs that grow and rotate."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.collect import LogTail, following, log_files
from harness.collect.log_files import rotated_parts

STEPS = st.lists(st.sampled_from(["line", "half", "look", "rotate"]), max_size=30)


def _rotate(path: Path) -> None:
    """As logrotate does: log.1 becomes log.2, the log becomes log.1, and the writer opens a new one."""
    for number in range(9, 0, -1):
        part = path.with_name(f"{path.name}.{number}")
        if part.exists():
            part.rename(path.with_name(f"{path.name}.{number + 1}"))
    path.rename(path.with_name(f"{path.name}.1"))
    path.touch()


@settings(deadline=None, max_examples=60)
@given(STEPS, st.booleans())
def test_every_line_comes_once_whatever_rotates(steps: list[str], from_end: bool) -> None:
    """Lines written in parts, read in between or not, rotated once or often: all come, in order, and only once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lmcache.log"
        path.write_text("before\n")
        tail = LogTail(path, from_end=from_end)
        written, seen = [] if from_end else ["before\n"], []
        open_text = ""
        for number, step in enumerate(steps):
            if step == "look":
                seen += tail.read()
                assert all(line.endswith("\n") for line in seen)
            elif step == "rotate" and not open_text:
                _rotate(path)
            elif step in {"line", "half"}:
                text = f"é{number}" + ("\n" if step == "line" else "")
                with path.open("a") as file:
                    file.write(text)
                open_text += text
                if step == "line":
                    written.append(open_text)
                    open_text = ""
        seen += tail.rest()
        assert seen == written + ([open_text] if open_text else [])
        assert tail.shortened == 0


def test_a_log_that_was_there_in_parts_is_read_from_the_oldest(tmp_path: Path) -> None:
    """log.2, log.1 and the log are one log."""
    path = tmp_path / "lmcache.log"
    for name, text in (("lmcache.log.2", "1\n"), ("lmcache.log.1", "2\n"), ("lmcache.log", "3\n")):
        (tmp_path / name).write_text(text)
    assert [part.name for part in rotated_parts(path)] == ["lmcache.log.2", "lmcache.log.1"]
    with LogTail(path) as tail:
        assert tail.rest() == ["1\n", "2\n", "3\n"]


def test_a_log_that_is_cut_short_is_read_again_and_said(tmp_path: Path) -> None:
    """Rotation by copying and cutting: what comes after the cut is read, and the cut is counted."""
    path = tmp_path / "lmcache.log"
    path.write_text("one\ntwo\n")
    with LogTail(path) as tail:
        assert tail.read() == ["one\n", "two\n"]
        path.write_text("3\n")
        assert tail.read() == ["3\n"]
        assert tail.shortened == 1


def test_a_log_may_come_later(tmp_path: Path) -> None:
    """A server that has not started yet has no log, and one is read as soon as it is there."""
    path = tmp_path / "lmcache.log"
    with LogTail(path) as tail:
        assert tail.read() == []
        path.write_text("one\n")
        assert tail.read() == ["one\n"]


def test_several_files_are_named_by_a_pattern(tmp_path: Path) -> None:
    """One file a worker: each is a log of its own, and what rotation left of them is not."""
    for name in ("worker-0.log", "worker-1.log", "worker-1.log.1", "other.txt"):
        (tmp_path / name).write_text("x\n")
    assert [path.name for path in log_files(str(tmp_path / "worker-*"))] == ["worker-0.log", "worker-1.log"]
    assert log_files(str(tmp_path / "gone.log")) == (tmp_path / "gone.log",)


def test_what_is_written_until_the_end_is_followed(tmp_path: Path) -> None:
    """The last line counts, even if nobody has ended it; what was there before does not."""
    path = tmp_path / "lmcache.log"
    path.write_text("before\n")
    with following((path,), from_end=True) as followed, path.open("a") as file:
        file.write("during\nlast")
    assert followed.end() == {path: ["during\n", "last"]}
