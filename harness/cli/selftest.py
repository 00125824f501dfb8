"""`kvreplay selftest`: the harness measures itself against its null server."""

import json
import sys
from typing import Annotated

import typer

from harness.experiment.null_work import WORKS
from harness.experiment.selftest import LATE_MS, SelfTest, stored_path
from harness.experiment.selftest import selftest as run_selftest


def selftest(
    work: Annotated[
        list[str] | None, typer.Option(help=f"only this one of {', '.join(w.name for w in WORKS)} (may be repeated)")
    ] = None,
    scale: Annotated[float, typer.Option(min=0.01, max=1.0, help="send this share of each work's requests")] = 1.0,
    http: Annotated[str, typer.Option(help="httptools or aiohttp")] = "httptools",
    workers: Annotated[int, typer.Option(min=1, help="processes that send")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document")] = False,
) -> None:
    """Say how late this client sends and how wrong its TTFT is on this machine; every later report repeats it."""
    known = {one.name: one for one in WORKS}
    unknown = [name for name in work or () if name not in known]
    if unknown:
        raise typer.BadParameter(f"no work is called {unknown[0]!r}", param_hint="--work")
    if http not in {"httptools", "aiohttp"}:
        raise typer.BadParameter("httptools or aiohttp", param_hint="--http")
    chosen = [known[name] for name in work] if work else WORKS
    result = run_selftest(
        chosen,
        scale=scale,
        http=http,
        workers=workers,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    print(json.dumps(result.to_json(), indent=2) if as_json else _text(result))


def _text(result: SelfTest) -> str:
    # the report room imports pandas and plotly: see cli/report
    from harness.report.client_error import HEADERS, error_rows  # noqa: PLC0415

    lines = [HEADERS, *error_rows(result.to_json()["errors"])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADERS))]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    rate = "none" if result.highest_rate_per_s is None else f"{result.highest_rate_per_s:,.0f} requests/s"
    return "\n".join(
        [
            f"{result.processor}; {result.http}, {result.workers} process(es); errors in ms as p50 / p99 / max",
            *table,
            f"highest rate held with a p99 send lag below {LATE_MS:g} ms: {rate}",
            f"kept in {stored_path()}",
        ]
    )
