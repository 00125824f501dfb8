"""`kvreplay`: the verbs, and how errors end."""

import sys

import typer

from harness.cli.compare import compare
from harness.cli.doctor import doctor
from harness.cli.export import export
from harness.cli.gate import gate
from harness.cli.index import index
from harness.cli.nightly import nightly
from harness.cli.plan import plan
from harness.cli.probe import probe
from harness.cli.report import report
from harness.cli.run import run
from harness.cli.selftest import selftest
from harness.cli.simulate import app as simulate
from harness.cli.timeline import timeline
from harness.cli.trace import app as trace
from harness.cli.up import down, up
from harness.errors import HarnessError

app = typer.Typer(
    help="Replay request traces against live vLLM + LMCache + Valkey: does a remote KV cache pay on this hardware?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (
    *(run, plan, probe, report, timeline, compare, gate, nightly, index, export),
    *(up, down, selftest, doctor),
):
    app.command()(verb)
app.add_typer(trace, name="trace")
app.add_typer(simulate, name="simulate")


def main() -> None:
    """Run the command line; a user's mistake ends as one block on stderr and the exit code of contract.md."""
    try:
        app()
    except HarnessError as error:
        print(error.block(), file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
