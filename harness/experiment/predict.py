"""The prediction of an arm, from what its warm-up did: in the run folder before anything of it is measured."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace

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
from harness.sim import idle_transfer_s, simulate_queue
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
        remedy = remedy or "see `kvreplay simulate queue` for what it needs"
        place.caveats.append(Caveat("not_predicted", text, remedy, arm.name))
        return
    write_predictions(place.folder.path, arm.name, records, identity.run_id)
    made = {"t_ns": place.clock.now_ns() - identity.t0_ns, "requests": len(records), "costs": asdict(costs)}
    known = place.folder.meta().get("predictions") or {}
    place.folder.update({"predictions": {**known, arm.name: made}})


def measured_costs(prepared: Prepared, arm: Arm, warm: WarmUp, machine: Machine | None) -> Costs:
    """R, the cost of a step and T0, and how they vary, from the rounds of a warm-up of one request at a time.

    A step is what one more token takes. R is that of a cold prompt, behind a step. T0 is what is left of a hit's TTFT
    behind its own transfer over the arm's idle links, a step and the tokens that are not hit; with no hits in it, 0.
    Medians, and the spread around them, are of each round without its first request: that one meets code that never
    ran, and waits for what the round before it is still storing.
    """
    step_s = statistics.median(_tpot_s(warm.cold + warm.hot) or [0.0])
    cold = [_ttft_s(record) - step_s for record in warm.cold[1:]]
    length = warm.cold[0].prompt_tokens_planned
    usual_s = statistics.median(cold)
    per_s = length / max(usual_s, (usual_s + step_s) / 2)
    spread = tuple(max(one, 0.0) / usual_s for one in cold)
    granule = granule_tokens(prepared.experiment, arm)
    hit_tokens = (length - 1) // granule * granule
    hits = [pair for pair in zip(warm.requests, warm.hot, strict=True) if pair[1].cached_tokens][1:]
    costs = Costs(per_s, step_s, 0.0, spread)
    if arm.lmcache is None or not hits:
        return costs
    caches = cache_spec(prepared.experiment, arm, prepared.model.kv_bytes)
    links = service_of(prepared.experiment, arm, costs, machine)
    known_s = step_s + (length - hit_tokens) / per_s
    left = [max(0.0, _ttft_s(hit) - idle_transfer_s(sent, caches, links) - known_s) for sent, hit in hits]
    fixed_s = statistics.median(left)
    return replace(costs, hit_fixed_s=fixed_s, hit_fixed_spread_s=tuple(one - fixed_s for one in left))


def _ttft_s(record: RequestRecord) -> float:
    ttft_ms = latencies(record).ttft_ms
    assert ttft_ms is not None  # noqa: S101 - warm_up refuses what was not answered
    return ttft_ms / 1e3


def _tpot_s(records: Sequence[RequestRecord]) -> list[float]:
    return [ms / 1e3 for ms in (latencies(record).tpot_ms for record in records) if ms is not None]
