"""The plan through a simulated engine in simulated time: the same records and series as a live run.

A discrete-event simulation: the clock jumps from the end of one engine step, arrival or load to the next. It reads no
clock and draws from seeded generators only, so equal input gives equal output.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from harness.records import Cell, RequestRecord, ServerSample
from harness.schedule import PassPlan, Plan, PlannedRequest
from harness.sim.caches import Caches, CacheSpec
from harness.sim.engine import Engine
from harness.sim.job import Job
from harness.sim.meter import Meter
from harness.sim.service import Service
from harness.sim.simulated import Served, Simulated, bytes_samples, gathered, of_pass, request_record

_SWEEP_S = 1.0  # LMCache's eviction loop (storage_controllers/eviction_controller.py)
_NS = 1e9
_MS = 1e3


def simulate_queue(plan: Plan, caches: CacheSpec, service: Service, cell: Cell, sample_s: float = 1.0) -> Simulated:
    """Every pass of `plan` on one engine, one after another, the prewarm first as in a run.

    Times of records count from the simulation's begin, as a run's do; `queue_ms`, `load_ms` and `recompute_ms` add up
    to the time from due to the first token. An in-step load counts for every request that it held up.

    Raises ValueError where a request does not fit into vLLM's cache.
    """
    caches.refuse_too_small(plan)
    world = _World(Caches(caches), service)
    if plan.prewarm is not None:
        world.run(plan.prewarm)
        world.settle()
        world.engine.caches.pool.forget()
    passes = []
    held: list[ServerSample] = []
    for part in plan.passes:
        here, begin_s = of_pass(cell, part.name), world.now
        jobs = world.run(part)
        passes.append((here, [_served(job) for job in jobs], [_record(job, here) for job in jobs], world.now - begin_s))
        world.settle()
        tiers = world.engine.caches.tiers
        if tiers is not None and tiers.remote is not None:
            held += bytes_samples(here, round(world.now * _NS), tiers.remote.bytes_held())
    series = world.meter.samples(cell, world.engine.loads.busy, world.now, sample_s)
    return gathered(passes, None if caches.lmcache is None else caches.lmcache.chunk_tokens, [*series, *held])


class _World:
    """An engine, the clock, and what it has done."""

    def __init__(self, caches: Caches, service: Service) -> None:
        self.engine = Engine(caches, service)
        self.meter = Meter()
        self.now = 0.0
        self._sweep_at = _SWEEP_S

    def run(self, part: PassPlan) -> list[Job]:
        """Replay a pass from now on until all of it has ended; its jobs in the order of the plan."""
        arrivals = _Arrivals(part, self.now)
        jobs: dict[int, Job] = {}
        ended = 0
        while ended < len(part.requests):
            for due_s, request in arrivals.until(self.now):
                jobs[request.seq] = job = Job(request, self.engine.caches.prompt(request), due_s)
                self.engine.add(job)
            self._sweep()
            step = self.engine.step(self.now)
            self.meter.counts.append((self.now, len(self.engine.running), len(self.engine.waiting)))
            if step is None:
                self.now = self._next(arrivals)
                continue
            self.meter.computing.append((step.computes_s, step.computes_s + step.compute_s))
            self.now = step.end_s
            for job in step.ended:
                arrivals.ended(job.request, self.now)
                ended += 1
        self.meter.counts.append((self.now, 0, 0))
        return [jobs[request.seq] for request in part.requests]

    def settle(self) -> None:
        """Wait until no store is on its way, as a run does before and after each pass."""
        self.now = self.engine.idle_at(self.now)

    def _next(self, arrivals: "_Arrivals") -> float:
        times = [when for when in (arrivals.next_s, self.engine.next_event(self.now)) if when is not None]
        assert times, "requests wait for nothing"  # noqa: S101 - refuse_too_small looked
        return max(self.now, min(times))

    def _sweep(self) -> None:
        tiers = self.engine.caches.tiers
        while self._sweep_at <= self.now:
            self._sweep_at += _SWEEP_S
            if tiers is not None and tiers.host is not None:
                tiers.host.sweep()


class _Arrivals:
    """Who comes when: at the due time, or when the one before has ended."""

    def __init__(self, part: PassPlan, begin_s: float) -> None:
        self._order = itertools.count()
        self._due: list[tuple[float, int, PlannedRequest]] = []
        self._turns: dict[int, list[PlannedRequest]] = {}
        self._lane: deque[PlannedRequest] = deque()
        if part.concurrency is not None:
            self._lane.extend(part.requests)
            for _ in range(min(part.concurrency, len(part.requests))):
                self._push(begin_s, self._lane.popleft())
            return
        for request in part.requests:
            if request.after is not None:
                self._turns.setdefault(request.after, []).append(request)
            else:
                self._push(begin_s + (request.due_ns or 0) / _NS, request)

    @property
    def next_s(self) -> float | None:
        """When the next one known of comes."""
        return self._due[0][0] if self._due else None

    def until(self, now: float) -> Iterator[tuple[float, PlannedRequest]]:
        """Those that have come by now, with the time each was due, in order."""
        while self._due and self._due[0][0] <= now:
            due_s, _, request = heapq.heappop(self._due)
            yield due_s, request

    def ended(self, request: PlannedRequest, now: float) -> None:
        """Whoever waits for it comes after it."""
        for turn in self._turns.pop(request.seq, ()):
            self._push(now + turn.gap_ns / _NS, turn)
        if self._lane:
            self._push(now, self._lane.popleft())

    def _push(self, due_s: float, request: PlannedRequest) -> None:
        heapq.heappush(self._due, (due_s, next(self._order), request))


def _served(job: Job) -> Served:
    assert job.hit is not None  # noqa: S101 - it has ended
    return Served(job.request, job.prompt, job.hit, job.remote_keys, job.remote_bytes)


def _record(job: Job, cell: Cell) -> RequestRecord:
    assert job.scheduled_s is not None  # noqa: S101 - it has ended
    stamps = tuple(round(when * _NS) for when in job.token_s)
    begun_s = max(job.due_s, job.scheduled_s)
    in_step = job.load_s if job.ready_s is None else 0.0
    queue_s = begun_s - job.due_s - (job.load_s - in_step)
    return replace(
        request_record(_served(job), cell, round(job.due_s * _NS)),
        sent_ns=round(job.due_s * _NS),
        headers_ns=stamps[0],
        first_token_ns=stamps[0],
        last_token_ns=stamps[-1],
        done_ns=stamps[-1],
        chunk_ns=stamps,
        attempts=1,
        queue_ms=queue_s * _MS,
        load_ms=job.load_s * _MS,
        recompute_ms=(job.token_s[0] - begun_s - in_step) * _MS,
    )
