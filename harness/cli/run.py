"""`kvreplay run`: every arm x workload x repeat of a config, live, into one run folder."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.cli.progress import LiveProgress, PlainProgress
from harness.cli.report import show
from harness.experiment.prepare import prepare
from harness.experiment.progress import Progress
from harness.experiment.run import run_experiment


def run(
    config: Annotated[Path, typer.Argument(help="the experiment, a YAML file such as configs/laptop.yaml")],
    arm: Annotated[list[str] | None, typer.Option(help="run only this arm (may be repeated)")] = None,
    workload: Annotated[list[str] | None, typer.Option(help="run only this workload (may be repeated)")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="instead of the config's")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="keep only the first rows of each trace")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="processes that send; as many as the plan needs")] = None,
    predict: Annotated[bool, typer.Option(help="simulate each arm before it is measured, and score that")] = True,
    out: Annotated[Path, typer.Option(help="where run folders go")] = Path("results"),
) -> None:
    """Start the stack of every arm, replay every workload against it, and say whether the remote cache pays."""
    prepared = prepare(config, arms=arm or (), workloads=workload or (), repeats=repeats, limit=limit, workers=workers)
    prepared = replace(prepared, predict=predict)
    console = Console(stderr=True)
    progress: Progress
    with LiveProgress(console) if console.is_terminal else PlainProgress() as progress:
        end = run_experiment(prepared, out, progress)
    show(end.folder, allow_incomplete=end.exit_code != 0)
    for failure in end.failures:
        print(failure.block(), file=sys.stderr)
    if end.interrupted:
        print(f"interrupted: what was measured until then is in {end.folder}", file=sys.stderr)
    raise SystemExit(end.exit_code)
