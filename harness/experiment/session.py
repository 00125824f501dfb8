"""One arm while it runs: what every step of it needs, and the one way passes are sent."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from harness.client import Carriage, Clock, MonotonicClock, Target, replay, replay_by_workers, workers_for
from harness.client.replay import Watch
from harness.collect.valkey_info import read_valkeys, until_settled
from harness.collect.vllm_metrics import until_idle
from harness.config import Arm
from harness.errors import CollectError
from harness.experiment.arm_log import ArmLog
from harness.experiment.halt import Halt
from harness.experiment.progress import Progress
from harness.experiment.sampling import ArmSampler
from harness.records import Caveat, Cell, PassCounters, PassRecord, RequestRecord
from harness.schedule import PassPlan, PlannedRequest
from harness.stack import EngineAddress, RunningStack
from harness.store import Journal, RunFolder

_IDLE_S = 900.0  # an overloaded arm drains its backlog; anything longer is a hang
_SETTLE_S = 300.0
_OTHERS_SETTLE_S = 10.0
_FLUSH_EVERY_NS = 1_000_000_000
_FLUSH_ROWS = 16  # a third of a millisecond: a flush happens between two sends, and must fit in there


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What every row of a run carries, and the origin of its clock."""

    run_id: str
    experiment: str
    t0_ns: int
    t0_unix_ns: int


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where the records and logs of a run go, and who is told.

    `planned` (requests by arm/workload/pass/repeat), `proofs`, `caveats` and `logs` (LMCache's, by arm) fill up as it
    runs. `fail_unproved`: an arm whose caches are not shown to be in the state wanted fails.
    """

    identity: RunIdentity
    folder: RunFolder
    journal: Journal
    progress: Progress
    clock: MonotonicClock
    planned: dict[str, int] = field(default_factory=dict)
    proofs: list[dict[str, Any]] = field(default_factory=list)
    caveats: list[Caveat] = field(default_factory=list)
    logs: dict[str, ArmLog] = field(default_factory=dict)
    fail_unproved: bool = True


@dataclass(frozen=True, slots=True)
class ArmSession:
    """A running arm: its stack, and where its records go. `index` is its place in the config.

    `target` and `carriage` say where and how requests are sent, by other processes and by this one; `workers` of them
    send an open loop (None: as many as it needs). `placed` tells what the instances of prompts' chunks make of them
    (experiment.placement.slowdowns).
    """

    place: RunPlace
    arm: Arm
    index: int
    stack: RunningStack
    target: Target
    carriage: Carriage
    workers: int | None
    http: httpx.AsyncClient
    halt: Halt
    sampler: ArmSampler | None
    placed: Callable[[Sequence[PlannedRequest]], Mapping[int, float]]
    _segments: Iterator[int] = field(default_factory=itertools.count)

    @property
    def owns_valkeys(self) -> bool:
        """Whether nobody else uses the Valkeys of this arm (if it has any): they were started for it."""
        return bool(self.stack.processes) and (self.arm.valkey is None or not self.arm.valkey.urls)

    @property
    def may_lose_valkeys(self) -> bool:
        """Whether the arm goes on without a Valkey that ended."""
        return self.arm.valkey is not None and self.arm.valkey.on_loss == "continue"

    async def send(
        self, plan: PassPlan, workload: str, repeat: int, hits: Mapping[tuple[str, int], int] | None = None
    ) -> tuple[RequestRecord, ...]:
        """Replay a pass and journal each record as it ends. Raises the halt's cause after every record is in."""
        identity = self.place.identity
        cell = Cell(
            run_id=identity.run_id,
            experiment=identity.experiment,
            arm=self.arm.name,
            workload=workload,
            pass_name=plan.name,
            repeat=repeat,
            segment=f"a{self.index}s{next(self._segments)}",
            t0_ns=identity.t0_ns,
            t0_unix_ns=identity.t0_unix_ns,
        )
        key = f"{self.arm.name}/{workload}/{plan.name}/{repeat}"
        self.place.planned[key] = self.place.planned.get(key, 0) + len(plan.requests)

        journal = journal_watch(self.place.journal, self.carriage.clock)
        placed = self.placed(plan.requests)

        def planned(record: RequestRecord) -> RequestRecord:
            predicted = None if hits is None else hits.get((plan.name, record.seq))
            return replace(record, predicted_cached_tokens=predicted, placement_slowdown=placed.get(record.seq))

        def keep(record: RequestRecord) -> None:
            journal(planned(record))
            self.place.progress.done(record)

        self.place.progress.begin(self.arm.name, workload, plan.name, len(plan.requests))
        try:
            records = await self._replay(plan, cell, keep)
        finally:
            if self.sampler is not None:
                await self.sampler.hand_over()
            self.place.journal.flush()
            self.place.progress.end()
        self.halt.check()
        return tuple(map(planned, records))

    async def _replay(self, plan: PassPlan, cell: Cell, keep: Watch) -> tuple[RequestRecord, ...]:
        """By this process, or by several where one is not enough."""
        workers = self.workers or workers_for(plan, os.cpu_count() or 1)
        stop, drain = self.halt.at_once, self.halt.event
        if workers == 1 or plan.concurrency is not None:
            return await replay(plan, cell, carriage=self.carriage, watch=keep, stop=stop, drain=drain)
        return await replay_by_workers(
            plan,
            cell,
            target=self.target,
            clock=self.carriage.clock,
            workers=workers,
            watch=keep,
            stop=stop,
            drain=drain,
        )

    async def measure(
        self, plan: PassPlan, workload: str, repeat: int, hits: Mapping[tuple[str, int], int]
    ) -> tuple[RequestRecord, ...]:
        """Send a measured pass, with the counters read while the engine is idle before and after it."""
        before = await self.idle()
        records = await self.send(plan, workload, repeat, hits)
        after = await self.idle()
        sent = [record.sent_ns for record in records if record.sent_ns is not None]
        done = [record.done_ns for record in records if record.done_ns is not None]
        duration_s = (max(done) - min(sent)) / 1e9 if sent and done else 0.0
        gained = after.since(before)
        self.place.journal.append(
            PassRecord(self.arm.name, workload, plan.name, repeat, len(plan.requests), duration_s, gained)
        )
        return records

    async def idle(self, timeout_s: float = _IDLE_S) -> PassCounters:
        """Wait until nothing runs and no store is on its way any more; the counters then.

        An engine that shows no metrics is taken to be idle. Raises CollectError if one is not within `timeout_s`.
        """
        counters = PassCounters.sum([await self._idle(engine, timeout_s) for engine in self.stack.engines])
        if not self.stack.valkey_urls:
            return counters
        if self.owns_valkeys:  # another's may never be quiet: others use it
            settled = until_settled(self.stack.valkey_urls, timeout_s=_SETTLE_S, absent_ok=self.may_lose_valkeys)
            await self.halt.guard(settled)
        readings = await read_valkeys(self.stack.valkey_urls)
        answers = [reading for reading in readings if reading is not None]
        if len(answers) < len(readings):
            return counters
        return replace(
            counters,
            valkey_get_calls=sum(reading.get_calls for reading in answers),
            valkey_bytes_out=sum(reading.bytes_out for reading in answers),
        )

    async def stored(self) -> None:
        """Wait until no store is on its way any more, also to Valkeys of others: a while, since others may use them."""
        if self.stack.valkey_urls and not self.owns_valkeys:
            with contextlib.suppress(CollectError):
                await self.halt.guard(until_settled(self.stack.valkey_urls, timeout_s=_OTHERS_SETTLE_S))

    async def _idle(self, engine: EngineAddress, timeout_s: float) -> PassCounters:
        if engine.metrics_url is None:
            return PassCounters()
        return await self.halt.guard(until_idle(self.http, engine.metrics_url, timeout_s=timeout_s))


def journal_watch(journal: Journal, clock: Clock) -> Watch:
    """What puts records into `journal`, flushed in small lots and at least once a second."""
    flushed_ns, waiting = clock.now_ns(), 0

    def keep(record: RequestRecord) -> None:
        nonlocal flushed_ns, waiting
        journal.append(record)
        waiting += 1
        if waiting >= _FLUSH_ROWS or clock.now_ns() - flushed_ns > _FLUSH_EVERY_NS:
            journal.flush()
            flushed_ns, waiting = clock.now_ns(), 0

    return keep
