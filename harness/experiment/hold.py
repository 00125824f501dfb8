"""A stack to play with: held by a process of its own until that is told to stop."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop

from harness.errors import ConfigError, HarnessError
from harness.experiment.arm import arm_stack
from harness.experiment.engine_model import cache_dir
from harness.experiment.halt import Halt, InterruptedRun, interruptible
from harness.experiment.machine import Machine
from harness.experiment.prepare import Prepared, require_engine
from harness.stack import RunningStack
from harness.store.folder import write_json


def state_path() -> Path:
    """Where the holder says who it is and where its stack answers."""
    return cache_dir() / "up.json"


def held() -> dict[str, Any] | None:
    """What the holder that runs now said; None if none runs (what a dead one left behind is not believed)."""
    try:
        state: dict[str, Any] = json.loads(state_path().read_text())
    except (OSError, ValueError):
        return None
    return state if alive(state) else None


def alive(state: Mapping[str, Any]) -> bool:
    """Whether the holder that wrote `state` still runs."""
    started_at = _started_at(state.get("pid", -1))
    return started_at is not None and started_at == state.get("started_at")


def hold(prepared: Prepared, logs: Path, prefill_tokens_per_s: float | None) -> None:
    """Start the only arm of `prepared`, write its state, and keep it until SIGTERM, SIGINT or a service's death.

    Raises ConfigError before anything starts, StackError when a service fails.
    """
    require_engine(prepared)
    arm = prepared.arms[0]
    link = arm.valkey.link if arm.valkey is not None else None
    if link is not None and link.bandwidth.bstar is not None and prefill_tokens_per_s is None:
        raise ConfigError(
            f"the links of arm {arm.name} are a multiple of B* = s R, and R is not measured here",
            where=str(prepared.path),
            remedy="give R in tokens a second: --prefill-rate 9000",
        )
    uvloop.run(_hold(prepared, logs, prepared.assumed_machine(prefill_tokens_per_s)))


async def _hold(prepared: Prepared, logs: Path, machine: Machine | None) -> None:
    halt = Halt()
    path = state_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    identity = {"pid": os.getpid(), "started_at": _started_at(os.getpid()), "arm": prepared.arms[0].name}

    def say(step: str) -> None:
        write_json(path, {**identity, "status": "starting", "step": step, "logs": str(logs)})

    async def until_told(stack: RunningStack) -> None:
        write_json(path, {**identity, "status": "up", "logs": str(logs), **_facts(stack)})
        halt.trip(await stack.died())

    try:
        async with contextlib.AsyncExitStack() as exits:
            exits.enter_context(interruptible(lambda: halt.trip(InterruptedRun())))
            starting = exits.enter_async_context(arm_stack(prepared, prepared.arms[0], machine, logs, say))
            await halt.guard(until_told(await halt.guard(starting)))
    except InterruptedRun:
        path.unlink(missing_ok=True)
    except HarnessError as error:
        write_json(path, {**identity, "status": "failed", "error": error.block()})
        raise


def _facts(stack: RunningStack) -> dict[str, Any]:
    first, *more = stack.engines
    return {
        "url": first.url,
        "model": stack.model,
        "metrics_url": first.metrics_url,
        "lmcache_url": first.lmcache_url,
        "lmcache_pages": first.lmcache_pages,
        "more_urls": [engine.url for engine in more],
        "valkey_urls": stack.valkey_urls,
        "pids": stack.pids,
    }


def _started_at(pid: int) -> str | None:
    """When a process started, in clock ticks since boot (proc(5), field 22): a pid that is used again has another.

    None for one that has ended, a zombie included.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return None
