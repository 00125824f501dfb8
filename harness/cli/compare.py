"""`kvreplay compare`: one arm against another, paired by trace row."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console


def compare(
    a: Annotated[
        str, typer.Argument(metavar="RUN:ARM", help="a run folder and one of its arms: what B is held against")
    ],
    b: Annotated[str, typer.Argument(metavar="RUN:ARM", help="the arm that is compared, of the same run or another")],
    metric: Annotated[str, typer.Option(help="a time of requests.parquet")] = "ttft_ms",
    allow: Annotated[list[str] | None, typer.Option(help="a key that may differ (may be repeated)")] = None,
    incomplete: Annotated[bool, typer.Option(help="open runs that did not end well, as far as they got")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document")] = False,
) -> None:
    """Medians, p99s, their differences and ratios with intervals, a signed-rank test, and the rows that moved most.

    Refuses where the plan, the model, versions, engine flags or the machine differ, and names the key.
    """
    # pandas and scipy take seconds to import: only what compares waits for them
    from harness.experiment.compare import compare_arms, comparison_json  # noqa: PLC0415
    from harness.report import render_comparison  # noqa: PLC0415

    comparison = compare_arms(a, b, metric, allow or (), allow_incomplete=incomplete)
    if as_json:
        print(json.dumps(comparison_json(comparison), indent=2, allow_nan=False))
    else:
        render_comparison(comparison, Console(width=None if sys.stdout.isatty() else 140))
