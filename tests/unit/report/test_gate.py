"""What people and other systems see of a gate."""

import io
import xml.etree.ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from harness.analysis import Check, Gate, Ruling
from harness.report import gate_markdown, junit_xml, render_gate

BY = {"arm": "host", "workload": "trace", "pass": "replay"}
GATE = Gate(
    "new",
    "old",
    0.05,
    (
        Check(BY, "ttft_p50", Ruling.PASSED, "fine"),
        Check(BY, "ttft_p99", Ruling.REGRESSED, "120 % of before"),
        Check(BY, "failures", Ruling.NOISY, "who knows"),
    ),
    ("a note",),
)


def test_junit() -> None:
    """A case a check: a regression is a failure, what cannot be told is skipped, the rest passes."""
    suite = ET.fromstring(junit_xml(GATE))  # noqa: S314 - our own text
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    cases = {case.get("name"): {child.tag for child in case} for case in suite}
    assert cases == {"ttft_p50": {"system-out"}, "ttft_p99": {"failure"}, "failures": {"skipped"}}


@settings(deadline=None, max_examples=50)
@given(text=st.text(max_size=30))
def test_junit_is_xml(text: str) -> None:
    """Whatever a check says, the document can be read."""
    gate = Gate("new", "old", 0.05, (Check({"arm": text}, "x", Ruling.REGRESSED, text),))
    assert ET.fromstring(junit_xml(gate)).get("failures") == "1"  # noqa: S314 - our own text


def test_everything_is_said() -> None:
    """Terminal and Markdown have every check with its reason, every note, and the ruling."""
    console = Console(file=io.StringIO(), width=200)
    render_gate(GATE, console)
    assert isinstance(console.file, io.StringIO)
    for text in (console.file.getvalue(), gate_markdown(GATE)):
        for part in ("120 % of before", "who knows", "fine", "a note", "regression shown"):
            assert part in text
