"""The queue simulator against a run that was measured before there were predictions, or by another version.

python -m tests.benchmark.predict_past_run RUN_FOLDER CONFIG     (a table on stdout)

Costs come from the warm-up rows of the run, as `run --predict` takes them; nothing else of the run is looked at before
the prediction is made. Ratios are predicted / measured; `growth` is the slope of TTFT over due time, in s a s.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness.config import Arm
from harness.experiment.machine import Machine
from harness.experiment.predict import measured_costs
from harness.experiment.prepare import Prepared, prepare
from harness.experiment.simulation import cache_spec, cell_of, service_of
from harness.experiment.warm_up import WarmUp, warm_up_plan
from harness.records import Outcome, RequestRecord, Run
from harness.records.latency import latencies
from harness.sim import simulate_queue
from harness.store import open_run
from tests.fakes.plans import CELL

_STAMPS = ("sent_ns", "first_token_ns", "last_token_ns", "completion_tokens", "cached_tokens")


def rows(run: Run, arm: Arm, pass_name: str, workload: str) -> list[dict[str, Any]]:
    """The rows of one pass, in the order they were due."""
    wanted = {"arm": arm.name, "pass": pass_name, "workload": workload}
    found = [row for row in run.requests.to_pylist() if all(row[name] == value for name, value in wanted.items())]
    return sorted(found, key=lambda row: row["due_ns"])


def warmed(run: Run, prepared: Prepared, arm: Arm) -> WarmUp:
    """What the arm did while it warmed up: the first half of its rows was cold."""
    records = [
        RequestRecord(
            *(CELL, row["seq"], row["row"], "", row["prompt_tokens_planned"], row["max_tokens"], row["due_ns"]),
            outcome=Outcome(row["outcome"]),
            **{name: row[name] for name in _STAMPS},
        )
        for row in rows(run, arm, "warmup", "warmup")
    ]
    half = len(records) // 2
    requests = warm_up_plan(arm.name, prepared.workloads).passes[1].requests
    return WarmUp(requests, tuple(records[:half]), tuple(records[half:]))


def lines(run: Run, prepared: Prepared) -> Iterator[str]:
    """One line an arm, workload and pass."""
    probe = run.meta["probe"]
    machine = Machine(probe["prefill_tokens_per_s"], probe["kv_bytes_per_token"], probe["prompt_tokens"])
    ran = set(run.requests["arm"].to_pylist())
    for arm in prepared.arms:
        if arm.name not in ran:
            continue
        costs = measured_costs(prepared, arm, warmed(run, prepared, arm), machine)
        caches = cache_spec(prepared.experiment, arm, prepared.model.kv_bytes)
        yield f"{arm.name}: {costs}"
        for workload in prepared.experiment.workloads:
            plan = prepared.workloads.plan(workload, 0, machine)
            same = "same plan" if plan.hash == run.meta["plans"][f"{workload.name}/0"]["hash"] else "ANOTHER PLAN"
            service = service_of(prepared.experiment, arm, costs, machine)
            found = simulate_queue(plan, caches, service, cell_of(prepared.experiment, arm, workload.name, 0))
            for part in plan.passes:
                measured = {row["seq"]: row for row in rows(run, arm, part.name, workload.name)}
                ours = [one for one in found.requests if one.cell.pass_name == part.name]
                equal = sum(one.cached_tokens == measured[one.seq]["cached_tokens"] for one in ours)
                due_s = np.array([measured[one.seq]["due_ns"] for one in ours]) / 1e9
                pair = [
                    np.array([latencies(one).ttft_ms for one in ours]),
                    np.array([measured[one.seq]["ttft_ms"] for one in ours]),
                ]
                figures = "  ".join(
                    f"p{q} {np.percentile(pair[0], q):.1f} / {np.percentile(pair[1], q):.1f} ms = "
                    f"{np.percentile(pair[0], q) / np.percentile(pair[1], q):.2f}"
                    for q in (50, 99)
                )
                growth = " / ".join(f"{np.polyfit(due_s - due_s[0], ttft / 1e3, 1)[0]:.4f}" for ttft in pair)
                yield (
                    f"  {workload.name}/{part.name} ({same}): cached tokens equal in {equal} of {len(ours)}  {figures}"
                    f"  growth {growth}"
                )


if __name__ == "__main__":
    folder, config = map(Path, sys.argv[1:])
    for line in lines(open_run(folder), prepare(config)):
        sys.stdout.write(line + "\n")
