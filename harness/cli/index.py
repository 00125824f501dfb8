"""`kvreplay index`: a page of all runs of a folder."""

from pathlib import Path
from typing import Annotated

import typer


def index(
    results: Annotated[Path, typer.Argument(help="the folder that run folders went to")] = Path("results"),
) -> None:
    """Write RESULTS/index.html: every run, newest first, with its verdict and each arm's p99 TTFT over the runs."""
    from harness.experiment.index import write_index  # noqa: PLC0415 - the reports' imports take seconds

    print(write_index(results))
