"""The prediction of an arm, from what its warm-up did: in the run folder before anything of it is measured."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict

from harness.config import Arm
from harness.errors import HarnessError
from harness.experiment.machine import Machine
from harness.experiment.prepare import Prepared
from harness.experiment.session import RunPlace
from harness.experiment.simulation import Costs, cache_spec, cell_of, service_of
from harness.experiment.warm_up import WarmUp
from harness.experiment.workloads import granule_tokens
from harness.records import Caveat, RequestRecord
from harness.records.latency import latencies
from harness.sim import simulate_queue
from harness.store import write_predictions


def predict_arm(prepared: Prepared, arm: Arm, place: RunPlace, warm: WarmUp, machine: Machine | None) -> None:
    """Write predictions/<arm>.parquet: every measured request of every workload and repeat, by the queue simulator.

    Where the arm cannot be simulated a caveat says why, and the run goes on.
    """
    records: list[RequestRecord] = []
    identity = place.identity
    try:
        caches = cache_spec(prepared.experiment, arm, prepared.model.kv_bytes)
        costs = measured_costs(prepared, arm, warm, machine)
        service = service_of(prepared.experiment, arm, costs, machine)
        for workload in prepared.experiment.workloads:
            for repeat in range(prepared.experiment.repeats):
                cell = cell_of(prepared.experiment, arm, workload.name, repeat, identity.run_id)
                plan = prepared.workloads.plan(workload, repeat, machine)
                records += simulate_queue(plan, caches, service, cell).requests
    except (HarnessError, ValueError) as error:
        remedy = error.remedy if isinstance(error, HarnessError) else ""
        text = f"{arm.name}: nothing was predicted: {error.args[0]}"
        place.caveats.append(Caveat("not_predicted", text, remedy or "see `kvreplay simulate queue` for what it needs"))
        return
    write_predictions(place.folder.path, arm.name, records, identity.run_id)
    made = {"t_ns": place.clock.now_ns() - identity.t0_ns, "requests": len(records), "costs": asdict(costs)}
    known = place.folder.meta().get("predictions") or {}
    place.folder.update({"predictions": {**known, arm.name: made}})


def measured_costs(prepared: Prepared, arm: Arm, warm: WarmUp, machine: Machine | None) -> Costs:
    """R, the cost of a step and T0, from the rounds of a warm-up of one request at a time.

    A step is what one more token takes. R is that of a cold prompt, behind a step. T0 is what is left of a hit's TTFT
    behind the transfer over the arm's links, a step and the tokens that are not hit; with no hits in it, 0.
    """
    step_s = statistics.median(_tpot_s(warm.cold + warm.hot) or [0.0])
    cold_s = statistics.median(_ttft_s(warm.cold))
    length = warm.cold[0].prompt_tokens_planned
    per_s = length / max(cold_s - step_s, cold_s / 2)
    hits = [record for record in warm.hot if record.cached_tokens]
    if arm.lmcache is None or not hits:
        return Costs(per_s, step_s, 0.0)
    hit_tokens = (length - 1) // granule_tokens(prepared.experiment, arm) * granule_tokens(prepared.experiment, arm)
    remote = None if machine is None else machine.remote_bytes_per_s(arm)
    transfer_s = 0.0 if remote is None or machine is None else machine.remote(remote).transfer_s(hit_tokens)
    known_s = transfer_s + step_s + (length - hit_tokens) / per_s
    return Costs(per_s, step_s, max(0.0, statistics.median(_ttft_s(hits)) - known_s))


def _ttft_s(records: Sequence[RequestRecord]) -> list[float]:
    return [ms / 1e3 for ms in (latencies(record).ttft_ms for record in records) if ms is not None]


def _tpot_s(records: Sequence[RequestRecord]) -> list[float]:
    return [ms / 1e3 for ms in (latencies(record).tpot_ms for record in records) if ms is not None]
