"""`kvreplay trace`: check a trace file, convert it, make one, describe it. Needs no server and no other part."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.trace_make import make
from harness.cli.trace_options import with_reading
from harness.cli.trace_text import described
from harness.errors import TraceError
from harness.trace import PEERS, ReadOptions, convert, sidecar_path
from harness.trace.check import Check, check

app = typer.Typer(help="Check, convert, make and describe trace files; starts nothing.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(metavar="FILE", help="a trace, in any format that `--format` knows")]
Format = Annotated[str | None, typer.Option("--format", help="its format; guessed only where a single one fits")]
Json = Annotated[bool, typer.Option("--json", help="one JSON document")]


@app.command(name="check")
@with_reading
def check_verb(file: File, options: ReadOptions, format: Format = None, as_json: Json = False) -> None:  # noqa: A002
    """Read every row, describe them, and say what to beware of: exit 0 fine, 1 warnings, 2 wrong."""
    try:
        found = check(file, format, options)
    except TraceError as error:
        if not as_json:
            raise
        wrong = {"what": error.what, "where": error.where, "remedy": error.remedy}
        print(json.dumps({"verdict": "wrong", "error": wrong}, indent=2))
        raise typer.Exit(error.exit_code) from None
    verdict = "warnings" if found.warnings else "fine"
    if as_json:
        warnings = [asdict(warning) for warning in found.warnings]
        print(json.dumps({"verdict": verdict, **_document(file, found), "warnings": warnings}, indent=2))
    else:
        print(described(file, found))
        for warning in found.warnings:
            print(f"warning: {warning.text}\n         {warning.remedy}")
        print("fine" if not found.warnings else f"{len(found.warnings)} warning(s)")
    raise typer.Exit(1 if found.warnings else 0)


@app.command(name="stats")
@with_reading
def stats(file: File, options: ReadOptions, format: Format = None, as_json: Json = False) -> None:  # noqa: A002
    """The description that `check` gives, without a verdict: exit 0 for every trace that can be read."""
    found = check(file, format, options)
    print(json.dumps(_document(file, found), indent=2) if as_json else described(file, found))


@app.command(name="convert")
@with_reading
def convert_verb(
    file: File,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="NAME.jsonl; NAME.meta.json is written beside it")],
    options: ReadOptions,
    source: Annotated[str | None, typer.Option("--from", help="the format; guessed where a single one fits")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="write the four keys of Mooncake's own files only")] = False,
    peer: Annotated[str | None, typer.Option("--for", help="for another tool: vllm, guidellm or aiperf")] = None,
    as_json: Json = False,
) -> None:
    """Write any trace as Mooncake JSONL with a sidecar that says what its rows cannot."""
    if peer is not None and peer not in PEERS:
        raise TraceError(f"--for {peer}", where="--for", remedy=f"use one of {', '.join(PEERS)}")
    done = convert(file, out, source, options, strict=strict, peer=peer)
    written = check(out, None, ReadOptions(allow_unhashed=True))
    if as_json:
        document = {"report": asdict(done.report), "sidecar": asdict(done.sidecar), "how_to_read": done.how_to_read}
        print(json.dumps({**document, "written": _document(out, written)}, indent=2))
        return
    print(described(file, Check(done.report, written.description, ())))
    print(f"written to {out}, with {sidecar_path(out).name}")
    if done.how_to_read:
        print(f"\n{peer} reads it right with:", file=sys.stderr)
        print("\n".join(done.how_to_read))


app.command(name="make")(make)


def _document(file: Path, found: Check) -> dict[str, Any]:
    return {"file": str(file), "reading": asdict(found.report), **asdict(found.description)}
