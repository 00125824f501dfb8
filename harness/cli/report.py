"""`kvreplay report`: the reports of a run folder again, from its parquet."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.cli.slo import slo_limits


def report(
    run: Annotated[Path, typer.Argument(help="a run folder: results/<experiment>/<time>-<id>")],
    out: Annotated[Path | None, typer.Option(help="where the page goes, instead of report.html in the folder")] = None,
    incomplete: Annotated[bool, typer.Option(help="open a run that did not end well, as far as it got")] = False,
    slo: Annotated[str | None, typer.Option(help="limits for goodput, as in ttft:2s,e2el:10s")] = None,
) -> None:
    """Write report.html, report.md and summary.json again, and print the table."""
    show(run, allow_incomplete=incomplete, page=out, limits_ms=slo_limits(slo))


def show(
    folder: Path, *, allow_incomplete: bool, page: Path | None = None, limits_ms: Mapping[str, float] | None = None
) -> None:
    """Write the reports of a run folder and print its table."""
    # pandas, scipy and plotly take seconds to import: only what shows a report waits for them
    from harness.experiment.report import write_reports  # noqa: PLC0415
    from harness.report import render_terminal  # noqa: PLC0415

    summary = write_reports(folder, allow_incomplete=allow_incomplete, page=page, limits_ms=limits_ms or {})
    render_terminal(summary, folder, Console(width=None if sys.stdout.isatty() else 140))
