"""`kvreplay timeline`: one arm of a run on one time axis."""

import json
from pathlib import Path
from typing import Annotated

import typer


def timeline(
    run: Annotated[Path, typer.Argument(help="a run folder: results/<experiment>/<time>-<id>")],
    arm: Annotated[str, typer.Option(help="which arm")],
    window: Annotated[float | None, typer.Option(min=0.001, help="seconds a row; by default at most 120 rows")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document, with every request's TTFT")] = False,
    incomplete: Annotated[bool, typer.Option(help="open a run that did not end well, as far as it got")] = False,
) -> None:
    """Print what ran and waited, loads in flight, bandwidth, how busy the engine was, and TTFT, window by window."""
    # pandas takes a second to import: only what reads a run waits for it
    from harness.experiment.timeline import read_timeline, to_json  # noqa: PLC0415
    from harness.report.timeline import render_timeline  # noqa: PLC0415

    read = read_timeline(run, arm, window_s=window, allow_incomplete=incomplete)
    print(json.dumps(to_json(read), allow_nan=False) if as_json else render_timeline(read))
