"""`kvreplay simulate cache|queue`: every arm and workload of a config through the simulators, as plain figures."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from harness.config import Arm, Workload
from harness.errors import ConfigError
from harness.experiment.machine import Machine, needs_probe
from harness.experiment.prepare import Prepared
from harness.experiment.simulation import (
    cache_spec,
    cell_of,
    costs_in,
    machine_in,
    policies_that_never_act,
    service_of,
    with_answers_cut,
)
from harness.records import RequestRecord
from harness.records.latency import latencies, mean, percentile
from harness.sim import Simulated, simulate_cache, simulate_queue

Kind = Literal["cache", "queue"]
_OPEN_LOOP_PASS = "replay"  # noqa: S105 - a pass of a workload, not a password


def simulate_experiment(prepared: Prepared, kind: Kind) -> dict[str, Any]:
    """Figures by arm, workload and pass, beside what was published of them; docs/method.md defines each.

    Raises ConfigError where the config does not say what the simulation needs.
    """
    experiment, simulation = prepared.experiment, prepared.experiment.simulation
    kv_bytes = simulation.kv_bytes_per_token or prepared.model.kv_bytes
    machine = machine_in(experiment, kv_bytes, prepared.workloads.longest_prompt_tokens)
    if machine is None and (kind == "queue" or needs_probe(experiment, prepared.arms)):
        missing = "R, the prefill rate" if simulation.prefill_tokens_per_s is None else "s, the KV bytes of a token"
        raise ConfigError(
            f"{missing}, is not known: nothing is measured here",
            where=f"{prepared.path}: simulation",
            remedy="give it: --set R=9200 (tokens a second), --set s=48.4KB, or in the config's simulation block",
        )
    rows, notes = [], list(_unhashed(prepared))
    for arm in prepared.arms:
        longest = prepared.workloads.longest_prompt_tokens
        said = (*cache_spec(experiment, arm, kv_bytes).costs(longest), *policies_that_never_act(experiment, arm))
        notes += [f"{arm.name}: {text}" for text in said]
        for workload in experiment.workloads:
            simulated = simulate_arm(prepared, arm, workload, machine, kind)
            rows += [{"arm": arm.name, "workload": workload.name, **row} for row in figures(simulated, kind)]
    return {
        "experiment": experiment.experiment,
        "kind": kind,
        "source": "sim",
        "inputs": simulation.model_dump(mode="json", exclude={"published"}, exclude_defaults=True),
        "rows": rows,
        "published": list(_beside(prepared, rows)),
        "notes": notes,
    }


def simulate_arm(prepared: Prepared, arm: Arm, workload: Workload, machine: Machine | None, kind: Kind) -> Simulated:
    """One arm and workload, its first repeat. Raises ConfigError where a request does not fit into vLLM's cache."""
    experiment = prepared.experiment
    kv_bytes = experiment.simulation.kv_bytes_per_token or prepared.model.kv_bytes
    plan = with_answers_cut(prepared.workloads.plan(workload, 0, machine), experiment.simulation.max_answer_tokens)
    caches, cell = cache_spec(experiment, arm, kv_bytes), cell_of(experiment, arm, workload.name, 0)
    try:
        if kind == "cache" or machine is None:
            return simulate_cache(plan, caches, cell)
        service = service_of(experiment, arm, costs_in(experiment, arm, machine), machine)
        return simulate_queue(plan, caches, service, cell)
    except ValueError as error:
        raise ConfigError(
            f"workload {workload.name}: {error}", where="engine.kv_cache_tokens", remedy="raise it"
        ) from error


def figures(simulated: Simulated, kind: Kind) -> list[dict[str, Any]]:
    """One row a pass."""
    rows = []
    for one in simulated.passes:
        records = [record for record in simulated.requests if record.cell.pass_name == one.pass_name]
        tiers = [tokens for tokens in simulated.tiers if tokens.pass_name == one.pass_name]
        row: dict[str, Any] = {
            "pass": one.pass_name,
            "requests": one.requests,
            "prompt_tokens": one.counters.prefix_cache_queries,
            "gpu_hit_tokens": sum(tokens.gpu for tokens in tiers),
            "host_hit_tokens": sum(tokens.host for tokens in tiers),
            "remote_hit_tokens": sum(tokens.remote for tokens in tiers),
            "computed_tokens": one.counters.prompt_tokens_local_compute,
            "hits_by_request": [[tokens.gpu, tokens.host, tokens.remote] for tokens in tiers],
            "valkey_get_calls": one.counters.valkey_get_calls,
            "valkey_bytes_out": one.counters.valkey_bytes_out,
            "instance_bytes": _instance_bytes(simulated, one.pass_name),
        }
        if kind == "queue":
            row |= _times(simulated, records)
        if kind == "queue" and one.pass_name == _OPEN_LOOP_PASS:
            row |= _course(records)
        rows.append(row)
    return rows


def _unhashed(prepared: Prepared) -> Iterator[str]:
    """What is lost where a trace does not say what its rows share."""
    for name, replayed in prepared.workloads.traces.items():
        rows = replayed.kept.requests
        silent = sum(not request.blocks for request in rows)
        if silent:
            yield f"workload {name}: {silent:,} of {len(rows):,} rows have no block ids, so they hit nothing of others"


def _times(simulated: Simulated, records: Sequence[RequestRecord]) -> dict[str, float | None]:
    ttft_ms = [latencies(record).ttft_due_ms or 0.0 for record in records]
    begin, end = min(record.due_ns for record in records), max(record.done_ns or 0 for record in records)
    busy = [
        sample.value
        for sample in simulated.samples
        if sample.name == "engine_busy_share" and begin < sample.t_ns <= end
    ]
    return {
        "duration_s": (end - begin) / 1e9,
        "ttft_p50_ms": percentile(ttft_ms, 50),
        "ttft_mean_ms": mean(ttft_ms),
        "ttft_p99_ms": percentile(ttft_ms, 99),
        "most_in_flight": _most_in_flight(records),
        "mean_in_flight": sum((record.done_ns or 0) - record.due_ns for record in records) / (end - begin),
        "engine_busy_share": mean(busy),
        "link_busy_share": _busiest_link(simulated, begin, end),
    }


def _course(records: Sequence[RequestRecord]) -> dict[str, float | None]:
    """How TTFT changes over an open loop; in a closed one no queue can grow."""
    ttft_ms = [latencies(record).ttft_due_ms or 0.0 for record in records]
    due_s = np.array([record.due_ns for record in records]) / 1e9
    growth = float(np.polyfit(due_s, np.array(ttft_ms) / 1e3, 1)[0]) if len(set(due_s)) > 1 else None
    course: dict[str, float | None] = {"ttft_growth": growth}
    for part, count, shown in (("third", 3, (1, 2, 3)), ("tenth", 10, (1, 10))):
        pieces = np.array_split(np.array(ttft_ms), count)
        course |= {f"ttft_p50_{part}_{n}_ms": percentile(pieces[n - 1].tolist(), 50) for n in shown}
    return course


def _instance_bytes(simulated: Simulated, pass_name: str) -> list[float]:
    """What each instance holds when the pass ends: the samples come in the order of the passes."""
    held = [sample for sample in simulated.samples if sample.name == "used_memory_dataset"]
    instances = len({sample.instance for sample in held})
    place = [one.pass_name for one in simulated.passes].index(pass_name)
    return [sample.value for sample in held[place * instances : (place + 1) * instances]]


def _most_in_flight(records: Sequence[RequestRecord]) -> int:
    moves = sorted([(r.due_ns, 1) for r in records] + [(r.done_ns or 0, -1) for r in records])
    return int(np.cumsum([change for _, change in moves]).max())


def _busiest_link(simulated: Simulated, begin_ns: int, end_ns: int) -> float | None:
    by_instance: dict[str, list[float]] = {}
    for sample in simulated.samples:
        if sample.name == "link_busy_share" and begin_ns < sample.t_ns <= end_ns:
            by_instance.setdefault(sample.instance, []).append(sample.value)
    return max((sum(values) / len(values) for values in by_instance.values()), default=None)


def _beside(prepared: Prepared, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each published figure with the simulated one."""
    for one in prepared.experiment.simulation.published:
        for row in rows:
            same = row["arm"] == one.arm and row["workload"] == one.workload
            ours = row.get(one.figure)
            if same and (one.pass_ is None or row["pass"] == one.pass_) and ours is not None:
                yield {
                    **{name: row[name] for name in ("arm", "workload", "pass")},
                    "figure": one.figure,
                    "simulated": ours,
                    "published": one.value,
                    "ratio": ours / one.value if one.value else None,
                    "source": one.source,
                    "note": one.note,
                }
