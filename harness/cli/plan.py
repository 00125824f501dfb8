"""`kvreplay plan`: everything a run would do, resolved; starts nothing."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.experiment.describe import describe_experiment
from harness.experiment.prepare import prepare


def plan(
    config: Annotated[Path, typer.Argument(help="the experiment, a YAML file")],
    prefill_rate: Annotated[
        float | None, typer.Option(help="assume R, in prompt tokens a second, instead of leaving it to the probe")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document")] = False,
) -> None:
    """Print each arm's command lines and each workload's size, rate, expected hits and rho."""
    document = describe_experiment(prepare(config), prefill_rate)
    print(json.dumps(document, indent=2) if as_json else _text(document))


def _text(document: dict[str, Any]) -> str:
    lines = [f"experiment {document['experiment']}: {document['cells']} cells (arm x workload x repeat)", ""]
    model = document["model"]
    of_rank = f" ({model['kv_bytes_per_rank']} on each rank)" if model["kv_bytes_per_rank"] != model["kv_bytes"] else ""
    size = "not known here" if model["kv_bytes"] is None else f"{model['kv_bytes']} bytes of KV a token{of_rank}"
    lines += [f"model {model['path']}, s = {size}"]
    lines += [document["machine"], ""]
    for workload in document["workloads"]:
        lines.append(f"workload {workload['name']}")
        lines += [
            f"  {name}: {value}" for name, value in workload.items() if name not in {"name", "arms", "transforms"}
        ]
        lines += [f"  {number}. {step}" for number, step in enumerate(workload.get("transforms", ()), start=1)]
        lines += [f"  on {arm}: {text}" for arm, text in workload["arms"].items()]
        lines.append("")
    for arm in document["arms"]:
        memory = "" if arm["memory_gb"] is None else f" (about {arm['memory_gb']} GB of memory)"
        lines.append(f"arm {arm['name']}{memory}")
        for command in arm["commands"]:
            lines += [f"  # {command['name']}", f"  {command['shell']}"]
        for file, text in arm["files"].items():
            lines += [f"  # {file}", *(f"  {line}" for line in text.splitlines())]
        lines.append("")
    return "\n".join(lines)
