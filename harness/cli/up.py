"""`kvreplay up` and `down`: one arm's stack, left running to play with."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.errors import ConfigError, StackError
from harness.experiment.engine_model import cache_dir
from harness.experiment.hold import alive, held, hold, state_path
from harness.experiment.prepare import prepare

_STOP_S = 300.0  # each service gets its grace, one after another, on a machine that may be busy


def up(
    config: Annotated[Path, typer.Argument(help="the experiment, a YAML file")],
    arm: Annotated[str, typer.Option(help="which arm to start")],
    prefill_rate: Annotated[float | None, typer.Option(help="R in prompt tokens a second, for links in Bstar")] = None,
    foreground: Annotated[bool, typer.Option(help="hold the stack in this process until Ctrl-C")] = False,
) -> None:
    """Start one arm and leave it running; `kvreplay down` stops it."""
    running = held()
    if running is not None:
        raise ConfigError(
            f"arm {running['arm']} is up already", where=str(state_path()), remedy="stop it with `kvreplay down`"
        )
    prepared = prepare(config, arms=[arm], ask=True)
    logs = cache_dir() / "up" / time.strftime("%Y%m%dT%H%M%S") / arm
    if foreground:
        hold(prepared, logs, prefill_rate)
        return
    argv = [sys.executable, "-m", "harness.cli", "up", str(config), "--arm", arm, "--foreground"]
    if prefill_rate is not None:
        argv += ["--prefill-rate", str(prefill_rate)]
    state_path().unlink(missing_ok=True)
    logs.mkdir(parents=True)
    with (logs / "holder.log").open("wb") as log:
        holder = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        state = _wait(holder, logs / "holder.log")
    except KeyboardInterrupt:
        holder.terminate()
        holder.wait()
        raise
    print(json.dumps(state, indent=2))


def down() -> None:
    """Stop what `kvreplay up` started."""
    running = held()
    if running is None:
        state_path().unlink(missing_ok=True)
        print("nothing is up")
        return
    os.kill(running["pid"], signal.SIGTERM)
    until = time.monotonic() + _STOP_S
    while alive(running):
        if time.monotonic() > until:
            raise StackError(
                f"the stack does not stop within {_STOP_S:.0f} s", where=f"pid {running['pid']}", remedy="kill that pid"
            )
        time.sleep(1.0)
    print(f"arm {running['arm']} is down")


def _wait(holder: "subprocess.Popen[bytes]", log: Path) -> dict[str, Any]:
    """Follow the holder's steps on stderr until it is up; what it says then."""
    step = ""
    while True:
        if holder.poll() is not None:
            raise StackError("the stack did not start", where=str(log), detail=log.read_text().strip())
        state = held() or {}
        if state.get("status") == "up":
            return state
        if state.get("step", step) != step:
            step = state["step"]
            print(step, file=sys.stderr, flush=True)
        time.sleep(1.0)
