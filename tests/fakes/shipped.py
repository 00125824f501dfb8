"""The arms of every config that is shipped, on paper: what `kvreplay plan` prints, the same on every machine."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.config import Arm, Engine, load_experiment
from harness.stack import Blueprint, Ports, draw
from harness.stack.valkey import binary

_ROOT = Path(__file__).parents[2]
CONFIGS = sorted((_ROOT / "configs").glob("*.yaml"))
_FIRST_PORT = 9_000


def arms(config: Path) -> Iterator[tuple[Engine, Arm, Blueprint]]:
    """Each arm that starts something, with ports from 9000 on and a model called MODEL."""
    experiment = load_experiment(config)
    if experiment.engine.backend == "attach":
        return
    for arm in experiment.arms:
        needed = Ports.needed(arm, experiment.engine.replicas)
        free = range(_FIRST_PORT, _FIRST_PORT + needed)
        rate = "RATE" if arm.valkey is not None and arm.valkey.link is not None else 0.0
        folder = Path("RUN") / "logs" / arm.name
        yield (
            experiment.engine,
            arm,
            draw(experiment.engine, arm, model="MODEL", kv_bytes=4096, link_bytes_per_s=rate, free=free, folder=folder),
        )


def told(config: Path) -> str:
    """Every command line and file of a config, without what this machine alone has: paths, cores, process ids."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        lines = []
        for _, arm, blueprint in arms(config):
            lines.append(f"arm {arm.name}")
            for command in blueprint.commands:
                lines += [f"  # {command.name}", f"  {command.shell()}"]
            if blueprint.lmcache_config is not None:
                lines.append(f"  # {blueprint.lmcache_file}")
                lines += [f"  {line}" for line in blueprint.lmcache_config.splitlines()]
            lines.append("")
    text = "\n".join(lines)
    for own, name in ((sys.executable, "PYTHON"), (str(binary()), "VALKEY-SERVER"), (str(_ROOT), "CHECKOUT")):
        text = text.replace(own, name)
    return re.sub(r"kvreplay-\d+-[0-9a-f]{6}", "SHM", text)
