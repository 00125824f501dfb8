"""What people see: the terminal's table, report.md and report.html. Arranges findings; computes nothing."""

from harness.report.markdown import render_markdown
from harness.report.page import render_page
from harness.report.table import render_terminal

__all__ = ["render_markdown", "render_page", "render_terminal"]
