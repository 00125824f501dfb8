"""From the config's workloads to plans: traces are read and checked first, rates resolved when the machine is known."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config import Arm, Experiment, Workload
from harness.errors import ConfigError
from harness.experiment.engine_model import EngineModel
from harness.experiment.machine import Machine
from harness.experiment.replayed import ReplayedTrace, open_names, read_replayed
from harness.schedule import Plan
from harness.schedule.passes import plan_passes
from harness.schedule.replay import plan_trace
from harness.schedule.tokens import Prompting
from harness.sim.infinite import infinite_cache_hits, stored_tokens
from harness.trace.transform import mean_rate

Hits = Mapping[tuple[str, int], int]
"""By (pass, seq): the most any cache could hit, in tokens."""


@dataclass(frozen=True, slots=True)
class Workloads:
    """Everything needed to build the plan of any workload and repeat.

    `traces` are checked and transformed. `hits` is by workload and granule (the unit in which a cache hits). Lengths
    and hits are those of every repeat: only tokens and times differ between them. `longest_prompt_tokens` is over all
    workloads, and so is `longest_request_tokens`, which counts the answer too.
    """

    experiment: Experiment
    prompting: Prompting
    traces: Mapping[str, ReplayedTrace]
    hits: Mapping[tuple[str, int], Hits]
    longest_prompt_tokens: int
    longest_request_tokens: int

    def plan(self, workload: Workload, repeat: int, machine: Machine | None) -> Plan:
        """The plan of one repeat; each has a salt of its own, so none can hit what an earlier one stored.

        Raises ConfigError where the rate depends on a machine that was not measured.
        """
        return self._plan(workload, repeat, self.rate_per_s(workload, machine))

    def untimed_plan(self, workload: Workload) -> Plan:
        """The plan of the first repeat without what depends on the machine: those steps are named, and not done."""
        plan = self._plan(workload, 0, None)
        trace = self.traces.get(workload.name)
        return plan if trace is None else replace(plan, transforms=(*plan.transforms, *open_names(trace.open_steps)))

    def _plan(self, workload: Workload, repeat: int, rate_per_s: float | None) -> Plan:
        salt = f"{self.experiment.seed}/{workload.name}/{repeat}"
        return _plan(workload, self.traces.get(workload.name), self.salted(salt), rate_per_s)

    def salted(self, salt: str) -> Prompting:
        """How prompts are made of ids, under another salt."""
        return replace(self.prompting, salt=salt)

    def hits_on(self, workload: Workload, arm: Arm) -> Hits:
        """The most that this arm's largest cache could hit of the workload, in its own granule."""
        return self.hits[workload.name, granule_tokens(self.experiment, arm)]

    def prewarmed_tokens(self, workload: Workload, arm: Arm) -> int:
        """The tokens that the workload's prewarm pass leaves in the arm's largest cache; 0 without one."""
        prewarm = self.untimed_plan(workload).prewarm
        return 0 if prewarm is None else stored_tokens(prewarm, granule_tokens(self.experiment, arm))

    def rate_per_s(self, workload: Workload, machine: Machine | None) -> float | None:
        """The mean arrival rate of a trace: by its own times, or that of `match-rho`; None for passes, or without one.

        Raises ConfigError where it depends on a machine that was not measured.
        """
        replay = workload.trace
        if replay is None:
            return None
        if not replay.matches_rho:
            return mean_rate(self.traces[workload.name].kept)
        arm = self.experiment.rho_arm(replay)
        remote = None if machine is None else machine.remote_bytes_per_s(arm)
        if machine is None or remote is None:
            raise ConfigError(
                "rate: match-rho needs R of this machine, which was not measured",
                where=f"workload {workload.name}",
                remedy="give a rate in requests a second, or run where the probe can measure",
            )
        hit_tokens = self._mean_hit_tokens(workload, arm)
        if hit_tokens == 0:
            raise ConfigError(
                "rate: match-rho: no request of this trace can hit, so no rate gives the remote tier a load",
                where=f"workload {workload.name}",
                remedy="prewarm it, keep more rows (limit), or give a rate in requests a second",
            )
        return machine.remote(remote).rate_for_rho(replay.rho, hit_tokens)

    def rho(self, workload: Workload, arm: Arm, machine: Machine | None, rate_per_s: float | None) -> float | None:
        """lambda n s / B of this workload on this arm's links; None without links, a rate or a measured machine."""
        remote = None if machine is None else machine.remote_bytes_per_s(arm)
        if machine is None or remote is None or rate_per_s is None:
            return None
        return machine.remote(remote).rho(rate_per_s, self._mean_hit_tokens(workload, arm))

    def _mean_hit_tokens(self, workload: Workload, arm: Arm) -> float:
        hits = self.hits_on(workload, arm)
        return sum(hits.values()) / len(hits)


def granule_tokens(experiment: Experiment, arm: Arm) -> int:
    """The unit in which an arm's largest cache hits: LMCache's chunk, else vLLM's block."""
    return arm.lmcache.chunk_size if arm.lmcache is not None else experiment.engine.block_size


def read_workloads(
    experiment: Experiment, base: Path, model: EngineModel, served_model: str, limits: Mapping[str, int]
) -> Workloads:
    """Read and check every trace of the config. Raises TraceError or ConfigError before anything has been started.

    `limits` are the token counts, by name, that no request may exceed.
    """
    chat = experiment.client.endpoint == "chat"
    prompting = Prompting(served_model, "", model.vocab_low, model.vocab_high, chat)
    traces = {
        workload.name: read_replayed(workload.trace, base, workload.name, limits, experiment.seed)
        for workload in experiment.workloads
        if workload.trace is not None
    }
    granules = {granule_tokens(experiment, arm) for arm in experiment.arms}
    hits: dict[tuple[str, int], Hits] = {}
    prompts, requests = [], []
    for workload in experiment.workloads:
        plan = _plan(workload, traces.get(workload.name), prompting, None)
        for granule in granules:
            hits[workload.name, granule] = infinite_cache_hits(plan.passes, granule, plan.prewarm)
        for part in (*plan.passes, *((plan.prewarm,) if plan.prewarm else ())):
            prompts += [len(request.tokens) for request in part.requests]
            requests += [len(request.tokens) + request.max_tokens for request in part.requests]
    return Workloads(experiment, prompting, traces, hits, max(prompts), max(requests))


def _plan(workload: Workload, trace: ReplayedTrace | None, prompting: Prompting, rate_per_s: float | None) -> Plan:
    if trace is not None and workload.trace is not None:
        timed, log = trace.timed(rate_per_s)
        waits = workload.trace.turns == "wait"
        plan = plan_trace(
            workload.name, timed, prompting, prewarm=workload.prewarms, whole=trace.whole, turns_wait=waits
        )
        return replace(plan, transforms=log)
    passes = workload.passes
    assert passes is not None  # noqa: S101 - a workload has one or the other (config)
    return plan_passes(
        workload.name,
        passes.documents,
        passes.document_tokens,
        passes.question_tokens,
        passes.output_tokens,
        passes.order,
        passes.concurrency,
        prompting,
        prewarm=workload.prewarms,
    )
