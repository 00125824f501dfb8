"""`kvreplay export`: one arm's requests in another tool's format."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """What can be written."""

    VLLM = "vllm-json"
    AIPERF = "aiperf-jsonl"
    CSV = "csv"
    LLM_D = "llm-d-report"


def export(
    run: Annotated[Path, typer.Argument(help="a run folder")],
    to: Annotated[Format, typer.Option(help="the format")],
    out: Annotated[Path, typer.Option(help="the file to write")],
    arm: Annotated[str | None, typer.Option(help="which arm; needed where the run has several (but for csv)")] = None,
    workload: Annotated[str | None, typer.Option(help="which workload; needed where the run has several")] = None,
    pass_name: Annotated[str | None, typer.Option("--pass", help="which pass; the last one otherwise")] = None,
    incomplete: Annotated[bool, typer.Option(help="open a run that did not end well, as far as it got")] = False,
) -> None:
    """Write requests as `vllm bench serve --save-detailed`, aiperf's profile_export.jsonl, CSV, or llm-d's report."""
    from harness.experiment.export import export_run  # noqa: PLC0415 - pandas takes seconds to import

    export_run(run, to.value, out, arm=arm, workload=workload, pass_name=pass_name, allow_incomplete=incomplete)
    print(out)
