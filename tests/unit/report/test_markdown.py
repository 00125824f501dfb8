"""report.md."""

import dataclasses

from harness.analysis import summarise, tell
from harness.records import Run
from harness.report import render_markdown
from harness.report.rows import HEADERS
from tests.fakes.runs import FakePass, fake_run


def markdown(run: Run) -> str:
    """The document of a run."""
    summary = summarise(run, 20)
    return render_markdown(summary, tell(run, summary))


def test_says_what_the_summary_says() -> None:
    """Verdict, a row an arm, every caveat and every fact."""
    run = fake_run([FakePass("recompute", [100.0] * 9), FakePass("host", [50.0] * 9)], versions={"vllm": "0.31.0"})
    text = markdown(run)
    assert text.startswith("# fake: undecided\n")
    assert "No arm has a remote tier" in text
    assert "| trace/replay | host | 50.0 \\[50.0, 50.0] |" in text
    assert "- **one_repeat**: one repeat only" in text
    assert "| vllm | 0.31.0 |" in text


def test_tables_keep_their_columns() -> None:
    """A bar or line break in a value cannot break a table apart."""
    run = fake_run([FakePass("recompute", [100.0])], versions={"host": "a|b\nc"})
    lines = markdown(run).splitlines()
    assert "| host | a\\|b c |" in lines
    table = [line for line in lines if line.startswith("| trace/")]
    assert next(line.count(" | ") for line in table) == len(HEADERS) - 1


def test_without_caveats() -> None:
    """No caveat is said, not left blank."""
    run = fake_run([])
    assert "## Caveats\n\nNone.\n" in markdown(run)


def test_a_prediction_stands_beside_its_measurement() -> None:
    """What was simulated beforehand has a line an arm; without a simulation there is no such table."""
    bare = fake_run([FakePass("recompute", [100.0, 200.0, 300.0])])
    simulated = fake_run([FakePass("recompute", [110.0, 220.0, 330.0])]).requests
    text = markdown(dataclasses.replace(bare, predictions=simulated))
    assert "| trace/replay | recompute | 220 | 1.10 |" in text
    assert "3 of 3" in text
    assert "simulated beforehand" not in markdown(bare)
