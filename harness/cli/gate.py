"""`kvreplay gate`: an exit code that means "regressed", with the statistic behind it."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.errors import HarnessError, IncomparableError


def gate(  # noqa: PLR0913, PLR0917 - the options of the command line
    run: Annotated[Path, typer.Argument(help="the run folder that is gated")],
    baseline: Annotated[Path | None, typer.Option(help="a run folder that it must not be slower than")] = None,
    history: Annotated[Path | None, typer.Option(help="or a history.parquet: the nights before it")] = None,
    nights: Annotated[int, typer.Option(min=5, help="how many runs of the history to look at")] = 14,
    max_regression: Annotated[str, typer.Option(help="what is still let pass, as in 5%")] = "5%",
    metric: Annotated[str, typer.Option(help="with --baseline: a time of requests.parquet")] = "ttft_ms",
    allow: Annotated[list[str] | None, typer.Option(help="a key that may differ (may be repeated)")] = None,
    junit: Annotated[Path | None, typer.Option(help="write JUnit XML there")] = None,
    markdown: Annotated[Path | None, typer.Option(help="write a Markdown page there")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document")] = False,
) -> None:
    """Exit 0: no regression. 3: a regression is shown. 4: not comparable, or too noisy to tell."""
    if (baseline is None) == (history is None):
        raise HarnessError("a gate needs something to hold the run against", remedy="--baseline RUN or --history FILE")
    limit = share(max_regression)
    # pandas and scipy take seconds to import: only what judges waits for them
    from harness.experiment.gate import EXIT_CODES, gate_json, gate_nights, gate_run, write_text  # noqa: PLC0415
    from harness.report import gate_markdown, junit_xml, render_gate  # noqa: PLC0415

    try:
        if baseline is not None:
            judged = gate_run(run, baseline, limit, metric, allow or ())
        else:
            judged = gate_nights(run, history or Path(), limit, nights, allow or (), keep=False)
    except IncomparableError as error:
        print(error.block(), file=sys.stderr)
        raise SystemExit(4) from None
    for path, text in ((junit, junit_xml), (markdown, gate_markdown)):
        if path is not None:
            write_text(path, text(judged))
    if as_json:
        print(json.dumps(gate_json(judged), indent=2, allow_nan=False))
    else:
        render_gate(judged, Console(width=None if sys.stdout.isatty() else 140))
    raise SystemExit(EXIT_CODES[judged.ruling])


def share(text: str) -> float:
    """`5%` as 0.05. Raises HarnessError on anything else."""
    number, percent, rest = text.partition("%")
    try:
        value = float(number) / 100
    except ValueError:
        value = -1.0
    if not percent or rest.strip() or not 0 <= value < 100:
        raise HarnessError(f"{text!r} is not a share", where="--max-regression", remedy="write it as in 5%")
    return value
