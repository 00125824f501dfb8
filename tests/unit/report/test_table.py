"""The terminal."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from harness.analysis import Summary, summarise
from harness.report import render_terminal
from tests.fakes.runs import FakePass, fake_run

FOLDER = Path("/a/rather/long/path/to/the/results/of/this/experiment/20261129T203000Z-abcdef")


def shown(summary: Summary, width: int) -> str:
    """What a terminal of that width shows."""
    console = Console(file=io.StringIO(), width=width)
    render_terminal(summary, FOLDER, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_everything_is_said(width: int) -> None:
    """Table, verdict, every caveat and the folder are there at any width, the folder whole and last."""
    summary = summarise(fake_run([FakePass("recompute", [100.0] * 9), FakePass("valkey-1", [250.0] * 9)]), 20)
    text = shown(summary, width)
    flat = "".join(text.split())
    assert text.splitlines()[-1] == str(FOLDER)
    assert "".join(summary.verdict.sentence.split()) in flat
    assert summary.caveats
    for caveat in summary.caveats:
        assert "".join(caveat.text.split()) in flat


def test_order() -> None:
    """First the table, then the verdict, then the caveats."""
    text = shown(summarise(fake_run([FakePass("recompute", [100.0] * 9)]), 20), width=200)
    assert text.index("trace/replay") < text.index("verdict: undecided") < text.index("caveat (one_repeat)")


def test_brackets_are_text() -> None:
    """What a server said is shown as it is, not read as markup."""
    known = {"kind": "log", "text": "ERROR [/red] worker [bold]died", "remedy": ""}
    assert "ERROR [/red] worker [bold]died" in shown(summarise(fake_run([], caveats=[known]), 20), width=200)
