"""`kvreplay nightly`: run, report, gate against the nights before, and keep the night."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.cli.gate import share


def nightly(
    config: Annotated[Path, typer.Argument(help="the experiment; plans must be equal every night: no match-rho rate")],
    out: Annotated[Path, typer.Option(help="where run folders, history.parquet and index.html go")] = Path("results"),
    nights: Annotated[int, typer.Option(min=5, help="how many runs of the history to look at")] = 14,
    max_regression: Annotated[str, typer.Option(help="what is still let pass, as in 5%")] = "5%",
    repeats: Annotated[int | None, typer.Option(min=1, help="instead of the config's")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="a key that may differ (may be repeated)")] = None,
) -> None:
    """Run, report, gate against the nights before, and keep the night.

    Exit 0, 3 and 4 as `gate` says; 1 if the run was partial: it is then not judged and not kept. Beside the run
    folder's reports it writes gate.xml (JUnit), gate.md and gate.json (with the exit code), and OUT/history.parquet
    and OUT/index.html. The last line on stdout is the run folder.
    """
    limit = share(max_regression)
    from harness.cli.run import measure  # noqa: PLC0415 - as in gate
    from harness.experiment.gate import EXIT_CODES, HISTORY, gate_json, gate_nights, write_text  # noqa: PLC0415
    from harness.experiment.index import write_index  # noqa: PLC0415
    from harness.experiment.prepare import prepare  # noqa: PLC0415
    from harness.report import gate_markdown, junit_xml, render_gate  # noqa: PLC0415

    end = measure(prepare(config, repeats=repeats, ask=True), out)
    if end.exit_code:
        write_index(out)
        raise SystemExit(end.exit_code)
    judged = gate_nights(end.folder, out / HISTORY, limit, nights, allow or (), keep=True)
    write_text(end.folder / "gate.xml", junit_xml(judged))
    write_text(end.folder / "gate.md", gate_markdown(judged))
    write_text(end.folder / "gate.json", json.dumps(gate_json(judged), indent=2, allow_nan=False) + "\n")
    write_index(out)
    render_gate(judged, Console(width=None if sys.stdout.isatty() else 140))
    print(end.folder)
    raise SystemExit(EXIT_CODES[judged.ruling])
