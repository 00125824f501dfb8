"""What people see: the terminal's tables, report.md, report.html, index.html. Arranges findings; computes nothing."""

from harness.report.comparison import render_comparison
from harness.report.gate import gate_markdown, junit_xml, render_gate
from harness.report.index import render_index
from harness.report.markdown import render_markdown
from harness.report.page import render_page
from harness.report.table import render_terminal

__all__ = [
    "gate_markdown",
    "junit_xml",
    "render_comparison",
    "render_gate",
    "render_index",
    "render_markdown",
    "render_page",
    "render_terminal",
]
