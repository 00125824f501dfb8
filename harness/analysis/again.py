"""The commands that repeat a run, from what its run.json says of it."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def commands(meta: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Shell lines: the commit, the run with its arms and workloads named, its reports, the comparison of two arms."""
    spec: Mapping[str, Any] = meta.get("spec") or {}
    config = meta.get("config")
    lines = []
    commit = str((meta.get("versions") or {}).get("commit") or "")
    if commit:
        changed = "  # and the changes it had then, which are not recorded" if commit.endswith("-dirty") else ""
        lines.append(f"git checkout {shlex.quote(commit.removesuffix('-dirty'))}{changed}")
    arms = [str(arm["name"]) for arm in spec.get("arms") or ()]
    if config and arms:
        chosen = [("--arm", name) for name in arms]
        chosen += [("--workload", str(one["name"])) for one in spec.get("workloads") or ()]
        traces = [one.get("trace") or {} for one in spec.get("workloads") or ()]
        limits = [int(trace["limit"]) for trace in traces if trace.get("limit") is not None]
        chosen += [("--limit", str(max(limits)))] if limits else []
        chosen += [("--repeats", str(spec.get("repeats", 1))), ("--seed", str(spec.get("seed", 0)))]
        words = [part for pair in chosen for part in pair]
        lines.append(shlex.join(["kvreplay", "run", str(config), *words]))
    lines.append(shlex.join(["kvreplay", "report", str(folder)]))
    if len(arms) > 1:
        lines.append(shlex.join(["kvreplay", "compare", f"{folder}:{arms[0]}", f"{folder}:{arms[-1]}"]))
    return tuple(lines)
