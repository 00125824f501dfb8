"""What the terminal shows when a run ends: the table, the verdict, the caveats, the folder."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.analysis import Summary
from harness.report.client_error import selftest_brief
from harness.report.rows import RISING, arms_table

# The columns of rows.HEADERS after the first, narrow enough for 80 characters; workload/pass is a line of its own.
_NARROW = (
    "arm",
    "p50\nms",
    "p99\nms",
    "p50\nratio",
    "p99\nratio",
    "mean\nms",
    "failed",
    "prefix\nhits",
    "external\nhits",
)


def render_terminal(summary: Summary, folder: Path, console: Console) -> None:
    """Prints `summary` on `console`. The folder's path stands alone on the last line, unwrapped, to be copied."""
    console.print(_table(summary))
    console.print(Text(f"verdict: {summary.verdict.word.value}", style="bold"))
    console.print(Text(summary.verdict.sentence))
    for one in summary.verdict.arms:
        console.print(Text(f"  {one.arm}, {one.advice}: {one.text}"))
    for caveat in summary.caveats:
        remedy = f"\n  to do: {caveat.remedy}" if caveat.remedy else ""
        console.print(Text(f"caveat ({caveat.kind}): {caveat.text}{remedy}", style="yellow"))
    console.print(Text(selftest_brief(summary.selftest)))
    console.print(Text(str(folder)), soft_wrap=True)


def _table(summary: Summary) -> Table:
    title = "TTFT from sent; hits in tokens; ratios to recompute"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for header in _NARROW:
        names = header == "arm"
        table.add_column(header, justify="left" if names else "right", overflow="fold", no_wrap=names)
    for row in arms_table(summary, intervals=False).rows:
        where, *cells = row.cells
        if row.opens:
            table.add_section()
            table.add_row(Text(where, style="bold"))
        table.add_row(*(Text(cell.replace(RISING, "\nrising").replace(" of ", "/")) for cell in cells))
    return table
