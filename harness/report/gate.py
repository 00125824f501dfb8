"""What people and other systems see of a gate: lines on the terminal, JUnit XML, a Markdown table for a job's page."""

import xml.etree.ElementTree as ET

from rich.console import Console
from rich.text import Text

from harness.analysis import Check, Gate, Ruling

_STYLES = {Ruling.PASSED: "green", Ruling.REGRESSED: "bold red", Ruling.NOISY: "yellow"}


def render_gate(gate: Gate, console: Console) -> None:
    """Prints every check, the notes, and the ruling last."""
    for check in gate.checks:
        console.print(Text(f"{check.ruling.value}: ", style=_STYLES[check.ruling]) + Text(_line(check), style=""))
    for note in gate.notes:
        console.print(Text(f"note: {note}"))
    console.print(Text(f"{gate.ruling.value}: {gate.run} against {gate.against}", style=_STYLES[gate.ruling]))


def junit_xml(gate: Gate) -> str:
    """A test case a check: a regression is a failure; what is too noisy to tell is skipped, with the reason."""
    counts = {ruling: sum(check.ruling is ruling for check in gate.checks) for ruling in Ruling}
    totals = {"tests": len(gate.checks), "failures": counts[Ruling.REGRESSED], "skipped": counts[Ruling.NOISY]}
    suite = ET.Element("testsuite", {"name": "kvreplay gate", **{name: str(count) for name, count in totals.items()}})
    for check in gate.checks:
        where = ".".join(_safe(check.by.get(key, "")) for key in ("arm", "workload", "pass"))
        case = ET.SubElement(suite, "testcase", {"classname": where, "name": check.name})
        if check.ruling is Ruling.REGRESSED:
            ET.SubElement(case, "failure", {"message": _safe(check.text)}).text = _safe(_line(check))
        elif check.ruling is Ruling.NOISY:
            ET.SubElement(case, "skipped", {"message": _safe(f"{check.ruling.value}: {check.text}")})
        else:
            ET.SubElement(case, "system-out").text = _safe(check.text)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def gate_markdown(gate: Gate) -> str:
    """The gate as Markdown, for the page of a CI job."""
    lines = [f"## {gate.ruling.value}", "", f"{gate.run} against {gate.against}", "", "| ruling | of | why |"]
    lines += ["| --- | --- | --- |"]
    lines += [f"| {check.ruling.value} | {_cell(check.label)} | {_cell(check.text)} |" for check in gate.checks]
    lines += ["", *(f"- {_cell(note)}" for note in gate.notes)]
    return "\n".join(lines).rstrip() + "\n"


def _line(check: Check) -> str:
    return f"{check.label}: {check.text}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _safe(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return "".join(mark if mark >= " " or mark in "\t\n" else "?" for mark in text)
