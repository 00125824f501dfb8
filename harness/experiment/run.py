"""A run, as the method section of a paper would tell it."""

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from harness.client import MonotonicClock, raise_open_files
from harness.config import Arm
from harness.errors import HarnessError
from harness.experiment.arm import run_arm
from harness.experiment.arm_log import ArmLog
from harness.experiment.attached import run_versions, served_caveats
from harness.experiment.facts import machine_facts
from harness.experiment.halt import Halt, InterruptedRun, interruptible
from harness.experiment.machine import Machine, link_bytes_per_s, needs_probe
from harness.experiment.prepare import Prepared, require_engine
from harness.experiment.progress import Progress
from harness.experiment.selftest import stored_selftest
from harness.experiment.session import RunIdentity, RunPlace
from harness.experiment.target import require_client
from harness.records import Caveat
from harness.stack import Interpreter
from harness.store import Journal, RunFolder, Status, consolidate


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended: its folder, what went wrong in which arm, and whether it was interrupted."""

    folder: Path
    failures: tuple[HarnessError, ...]
    interrupted: bool

    @property
    def exit_code(self) -> int:
        """0 done, 1 partial or failed, 130 interrupted (contract.md)."""
        return 130 if self.interrupted else 1 if self.failures else 0


def run_experiment(prepared: Prepared, results_dir: Path, progress: Progress) -> RunEnd:
    """Run every arm, workload and repeat; whatever happens, what was measured is in the run folder.

    An arm that fails does not stop the others. SIGINT and SIGTERM end the run in an orderly way.
    Raises ConfigError if the stack's packages are missing; nothing has been started then.
    """
    require_engine(prepared)
    require_client(prepared.experiment.client, prepared.path)
    return uvloop.run(_run(prepared, results_dir, progress))


async def _run(prepared: Prepared, results_dir: Path, progress: Progress) -> RunEnd:
    raise_open_files()
    clock = MonotonicClock()
    run_id, now = secrets.token_hex(3), datetime.now(UTC)
    name = prepared.experiment.experiment
    folder = RunFolder.create(results_dir, name, run_id, now.strftime("%Y%m%dT%H%M%SZ"))
    identity = RunIdentity(run_id, name, clock.now_ns(), clock.unix_ns())
    folder.update(
        {
            "config": str(prepared.path),
            "spec": prepared.experiment.model_copy(update={"arms": prepared.arms}).model_dump(mode="json"),
            "versions": run_versions(prepared.servers),
            "machine": machine_facts(),
            "model": prepared.model,
            "selftest": stored_selftest(),
        }
    )
    with Journal(folder.path, run_id) as journal:
        strict = prepared.experiment.on_unproved == "fail"
        caveats = list(served_caveats(prepared.servers or {}))
        place = RunPlace(identity, folder, journal, progress, clock, caveats=caveats, fail_unproved=strict)
        run = _Arms(prepared, place)
        try:
            with interruptible(run.interrupt):
                await run.all()
        finally:
            folder.update(run.facts())
        expected = journal.counts
    with interruptible(lambda: None):  # this takes seconds, and everything measured would be lost to most readers
        progress.say("writing the tables")
        _write_tables(prepared, place, expected)
        curves = {"capacity_curves": _curves(prepared)}
        folder.update({**run.facts(), **curves}, run.status())
    return RunEnd(folder.path, tuple(run.failures), run.interrupted)


def _write_tables(prepared: Prepared, place: RunPlace, expected: Mapping[str, int]) -> None:
    """Parquet of what the journal holds, joined with what the servers said."""
    # pandas and numba take seconds to import: the run waits for them only now that nothing is measured any more
    from harness.experiment.join import join_servers  # noqa: PLC0415

    logs = {arm.name: ArmLog(was_read=False) for arm in prepared.experiment.arms if arm.lmcache is not None}
    consolidate(
        place.folder.path,
        expected=expected,
        join=lambda tables: join_servers(tables, logs | place.logs, place.caveats.append),
    )


def _curves(prepared: Prepared) -> dict[str, Any]:
    from harness.experiment.curve import replayed_curves  # noqa: PLC0415 - as above

    return replayed_curves(prepared.workloads)


class _Arms:
    """The arms one after another, and what becomes of them."""

    def __init__(self, prepared: Prepared, place: RunPlace) -> None:
        self._prepared = prepared
        self._place = place
        self._halt = Halt()
        self._machine: Machine | None = None
        self.failures: list[HarnessError] = []
        self.interrupted = False
        self.in_flight: str | None = None  # what an interrupt did to the requests in flight

    async def all(self) -> None:
        """Run them. The probe needs an engine without LMCache: such an arm goes first, or one is started for it."""
        probe = needs_probe(self._prepared.experiment, self._prepared.arms)
        arms = sorted(self._prepared.arms, key=lambda arm: arm.lmcache is not None)
        if probe and arms[0].lmcache is not None:
            arms.insert(0, Arm(name="probe"))
        for arm in arms:
            if self.interrupted:
                break
            self._halt = Halt()
            self._place.progress.say(f"arm {arm.name}")
            try:
                machine = await self._run(arm, probe=probe and self._machine is None)
            except InterruptedRun:
                self.interrupted = True
            except HarnessError as error:
                self._place.progress.say(f"arm {arm.name} failed: {error.what}")
                self.failures.append(error)
                if probe and self._machine is None:
                    break  # links and rates of the others depend on what this one was to measure
            else:
                self._machine = machine
                self._place.folder.update(self.facts())

    def interrupt(self) -> None:
        """End the arm that runs, and the run; the second time, or if the config says so, requests in flight too."""
        drain = self._prepared.experiment.client.on_interrupt == "drain" and not self.interrupted
        if drain:
            self._place.progress.say("interrupted: requests in flight may end; Ctrl-C again cuts them")
        self.interrupted = True
        self.in_flight = "drained" if drain else "cancelled"
        self._halt.trip(InterruptedRun(), drain=drain)

    def status(self) -> Status:
        """Complete if every arm ran to its end; failed if nothing was measured."""
        if not self.failures and not self.interrupted:
            return Status.COMPLETE
        return Status.PARTIAL if self._place.journal.counts["passes"] else Status.FAILED

    def facts(self) -> dict[str, Any]:
        """What run.json says of the run so far."""
        machine, workloads = self._machine, self._prepared.workloads
        plans: dict[str, Any] = {}
        if machine is not None or not needs_probe(self._prepared.experiment, self._prepared.arms):
            for workload in self._prepared.experiment.workloads:
                for repeat in range(self._prepared.experiment.repeats):
                    plan = workloads.plan(workload, repeat, machine)
                    rate = workloads.rate_per_s(workload, machine)
                    facts = {"hash": plan.hash, "rate_per_s": rate, "transforms": plan.transforms}
                    plans[f"{workload.name}/{repeat}"] = facts
        return {
            "probe": None if machine is None else machine.facts(),
            "arms": {arm.name: self._arm_facts(arm) for arm in self._prepared.arms},
            "plans": plans,
            "planned": self._place.planned,
            "state_proofs": self._place.proofs,
            "interrupted": self.in_flight,
            "failures": [{"what": e.what, "where": e.where, "remedy": e.remedy} for e in self.failures],
            "caveats": [asdict(caveat) for caveat in (*self._place.caveats, *map(_failed, self.failures))],
        }

    def _arm_facts(self, arm: Arm) -> dict[str, Any]:
        machine = self._machine
        rhos = [
            rho
            for workload in self._prepared.experiment.workloads
            if workload.trace is not None and machine is not None
            for rho in [
                self._prepared.workloads.rho(
                    workload, arm, machine, self._prepared.workloads.rate_per_s(workload, machine)
                )
            ]
            if rho is not None
        ]
        return {
            "link_bytes_per_s": link_bytes_per_s(arm, machine),
            "instances": arm.valkey.instances if arm.valkey else None,
            "versions": None if arm.python is None else Interpreter.of(arm.python).versions(),
            "rho": rhos[0] if rhos else None,
        }

    async def _run(self, arm: Arm, *, probe: bool) -> Machine | None:
        prepared = self._prepared
        if arm.name == "probe" and arm not in prepared.experiment.arms:
            prepared = prepared.for_probe(arm)
        return await run_arm(prepared, arm, self._place, self._halt, self._machine, probe=probe)


def _failed(error: HarnessError) -> Caveat:
    return Caveat("arm_failed", error.what, error.remedy)
