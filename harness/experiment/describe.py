"""What `kvreplay plan` shows: an experiment resolved as far as it can be without starting anything."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.config import Arm, Workload
from harness.experiment.attached import attach_of
from harness.experiment.machine import Machine, needs_probe
from harness.experiment.prepare import Prepared, draws_seed, memory_bytes
from harness.schedule.describe import describe
from harness.sim.infinite import mean_hit_tokens
from harness.stack import draw, ports_for


def describe_experiment(prepared: Prepared, prefill_tokens_per_s: float | None) -> dict[str, Any]:
    """Plain values only. `prefill_tokens_per_s` stands for the probe where the config depends on R."""
    experiment, model = prepared.experiment, prepared.model
    machine = prepared.assumed_machine(prefill_tokens_per_s)
    return {
        "experiment": experiment.experiment,
        "cells": len(prepared.arms) * len(experiment.workloads) * experiment.repeats,
        "model": {
            "path": model.path or "as the servers say",
            "kv_bytes": model.kv_bytes,
            "kv_bytes_per_rank": model.kv_bytes_per_rank,
        },
        "machine": _machine(prepared, machine),
        "workloads": [_workload(prepared, workload, machine) for workload in experiment.workloads],
        "arms": [_arm(prepared, arm, machine) for arm in prepared.arms],
    }


def _machine(prepared: Prepared, machine: Machine | None) -> str:
    if machine is not None:
        rate, bstar = machine.prefill_tokens_per_s, machine.bstar_bytes_per_s
        return f"R = {rate:,.0f} tokens/s (assumed), B* = s R = {bstar / 1e6:,.1f} MB/s"
    if needs_probe(prepared.experiment, prepared.arms):
        return (
            "R is measured when the run starts; until then bandwidths stay multiples of B* = s R, and the rate of a "
            "match-rho trace is open (--prefill-rate assumes an R)"
        )
    return "nothing in this config depends on R"


def _workload(prepared: Prepared, workload: Workload, machine: Machine | None) -> dict[str, Any]:
    known = machine is not None or workload.trace is None or not workload.trace.matches_rho
    workloads = prepared.workloads
    plan = workloads.plan(workload, 0, machine) if known else workloads.untimed_plan(workload)
    facts = {name: value for name, value in asdict(describe(plan)).items() if value not in (None, 0)}
    if not known:
        for name in ("span_s", "rate_per_s"):
            facts[name] = "set by the probe (match-rho)"
    if workload.trace is not None:
        facts["transforms"] = list(plan.transforms)
    arms = {arm.name: _on_arm(prepared, workload, arm, machine, known=known) for arm in prepared.arms}
    plan_hash = plan.hash if known else "set by the probe"
    if draws_seed(prepared.experiment, prepared.arms) or not prepared.model.path:
        plan_hash = "of each run its own: the model is the servers', and without a seed the prompts are new"
    return {"name": workload.name, **facts, "plan_hash": plan_hash, "arms": arms}


def _on_arm(prepared: Prepared, workload: Workload, arm: Arm, machine: Machine | None, *, known: bool) -> str:
    """The hits that an infinite cache of this arm's granule would have, and the load of its links."""
    hits = mean_hit_tokens(prepared.workloads.hits_on(workload, arm))
    text = ", ".join(f"{name} {tokens:,.0f}" for name, tokens in hits.items())
    text = f"at most {text} hit tokens a request"
    rate = prepared.workloads.rate_per_s(workload, machine) if known else None
    rho = prepared.workloads.rho(workload, arm, machine, rate)
    return text if rho is None else f"{text}, rho {rho:.2f}"


def _arm(prepared: Prepared, arm: Arm, machine: Machine | None) -> dict[str, Any]:
    experiment, model = prepared.experiment, prepared.model
    attach = attach_of(experiment, arm)
    if attach is not None:
        there = {"name": "attach", "shell": f"# servers that already run: {', '.join(attach.urls)}"}
        return {"name": arm.name, "memory_gb": None, "commands": [there], "files": {}}
    name = {"name": arm.name, "memory_gb": round(memory_bytes(experiment, model, arm) / 1e9, 1)}
    blueprint = draw(
        experiment.engine,
        arm,
        model=model.path,
        kv_bytes=model.kv_bytes or 0,
        link_bytes_per_s=_link_rate(arm, machine),
        free=ports_for(arm, experiment.engine),
        folder=Path("RUN") / "logs" / arm.name,
    )
    files = {} if blueprint.lmcache_config is None else {str(blueprint.lmcache_file): blueprint.lmcache_config}
    commands = [{"name": one.name, "shell": one.shell()} for one in blueprint.commands]
    return {**name, "commands": commands, "files": files}


def _link_rate(arm: Arm, machine: Machine | None) -> float | str:
    if arm.valkey is None or arm.valkey.link is None:
        return 0.0
    if machine is not None:
        return machine.link_bytes_per_s(arm) or 0.0
    bandwidth = arm.valkey.link.bandwidth
    return bandwidth.bytes_per_s if bandwidth.bytes_per_s is not None else f"{bandwidth.bstar:g}*BSTAR"
