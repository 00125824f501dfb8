"""`kvreplay run`: every arm x workload x repeat of a config, live, into one run folder."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.cli.progress import LiveProgress, PlainProgress
from harness.cli.report import show
from harness.cli.slo import slo_limits
from harness.experiment.prepare import Prepared, prepare
from harness.experiment.progress import Progress
from harness.experiment.run import RunEnd, run_experiment


def run(  # noqa: PLR0913, PLR0917 - the options of the command line
    config: Annotated[Path, typer.Argument(help="the experiment, a YAML file such as configs/laptop.yaml")],
    arm: Annotated[list[str] | None, typer.Option(help="run only this arm (may be repeated)")] = None,
    workload: Annotated[list[str] | None, typer.Option(help="run only this workload (may be repeated)")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="instead of the config's")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="keep only the first rows of each trace")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="processes that send; as many as the plan needs")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="instead of the config's: other prompts")] = None,
    predict: Annotated[bool, typer.Option(help="simulate each arm before it is measured, and score that")] = True,
    out: Annotated[Path, typer.Option(help="where run folders go")] = Path("results"),
    slo: Annotated[str | None, typer.Option(help="limits for goodput, as in ttft:2s,e2el:10s")] = None,
) -> None:
    """Replay every workload against every arm's stack, and say whether the remote cache pays.

    Each stack is started for it and stopped again, or attached to where it runs already (configs/attach.yaml).
    """
    limits = slo_limits(slo)
    settings = {name: str(value) for name, value in (("workers", workers), ("seed", seed)) if value is not None}
    prepared = prepare(
        config,
        arms=arm or (),
        workloads=workload or (),
        repeats=repeats,
        limit=limit,
        settings=settings,
        ask=True,
    )
    raise SystemExit(measure(replace(prepared, predict=predict), out, limits).exit_code)


def measure(prepared: Prepared, out: Path, limits_ms: Mapping[str, float] | None = None) -> RunEnd:
    """Run it with progress on stderr, write and show its reports below `out`, and say what went wrong."""
    console = Console(stderr=True)
    progress: Progress
    with LiveProgress(console) if console.is_terminal else PlainProgress() as progress:
        end = run_experiment(prepared, out, progress)
    try:
        show(end.folder, allow_incomplete=end.exit_code != 0, limits_ms=limits_ms)
    except KeyboardInterrupt:
        print(f"interrupted: `kvreplay report {end.folder}` makes the reports", file=sys.stderr)
        raise
    for failure in end.failures:
        print(failure.block(), file=sys.stderr)
    if end.interrupted:
        print(f"interrupted: what was measured until then is in {end.folder}", file=sys.stderr)
    return end
