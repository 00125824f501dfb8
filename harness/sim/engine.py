"""The engine, step by step: who is admitted, what is computed, what is loaded, what is stored, and how long it takes.

The order is that of vLLM 0.31 (v1/core/sched/scheduler.py): running requests first, then waiting ones in the order of
arrival, those that hold blocks before the others; one that waits for a load is passed over, one for which there is no
room holds up those behind it.
"""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from harness.sim.caches import Caches
from harness.sim.job import Job, Stage
from harness.sim.links import Links, Loader
from harness.sim.lmcache import NOTHING
from harness.sim.remote import Part
from harness.sim.service import Service


@dataclass(frozen=True, slots=True)
class Step:
    """One step: it computes from `computes_s` on for `compute_s`, and ends; `ended` have their whole answer."""

    begin_s: float
    computes_s: float
    compute_s: float
    end_s: float
    ended: tuple[Job, ...]


class Engine:
    """Requests, caches and links of one engine. Times are seconds of one clock, given by the caller."""

    def __init__(self, caches: Caches, service: Service) -> None:
        self.caches = caches
        self.loads = Links(service.instance_bytes_per_s, service.instance_cv, service.seed)
        self.stores = (
            self.loads if service.stores == "competing" else Links(service.instance_bytes_per_s, 0.0, service.seed)
        )
        self.running: list[Job] = []
        self.waiting: deque[Job] = deque()
        self._service = service
        self._loader = Loader(self.loads, service.loads_in_flight)
        self._copied_at = 0.0
        self._untold = 0
        self._draws = random.Random(service.seed)  # noqa: S311 - how long a prompt takes is no secret

    def add(self, job: Job) -> None:
        """A request has come."""
        job.slowness = self._draws.choice(self._service.prefill_spread)
        job.hit_fixed_s = self._service.hit_fixed_s + self._draws.choice(self._service.hit_fixed_spread_s)
        self.waiting.append(job)

    def next_event(self, now: float) -> float | None:
        """When, at `now` or after, something ends that a request waits for; None if nothing does."""
        copies = [job.ready_s for job in self.waiting if job.stage is Stage.COPYING and job.ready_s is not None]
        fetches = self._loader.next_end(now)
        return min([*copies, *([] if fetches is None else [fetches])], default=None)

    def idle_at(self, now: float) -> float:
        """When every load and store that was asked for has ended: `now` or after."""
        return max(now, self.loads.free_at, self.stores.free_at)

    def step(self, now: float) -> Step | None:
        """Schedule what can be, and compute it; None where there is nothing to compute now."""
        self._loader.advance(now)
        self._untold = 0
        batch: list[tuple[Job, int]] = []
        budget = self._schedule_running(batch, self._service.batched_tokens)
        if budget is not None:
            self._admit_waiting(batch, budget, now)
        elif not batch:  # all that ran gave way to requests that hold blocks and wait
            self._admit_waiting(batch, self._service.batched_tokens, now)
        if not batch:
            return None
        polled_s = now + self._untold * self._service.lookup_poll_s
        computes_s = self._load_in_step([job for job, _ in batch], polled_s)
        effort = sum(tokens * job.slowness for job, tokens in batch)
        compute_s = self._service.step_s + effort / self._service.prefill_tokens_per_s
        end = computes_s + compute_s
        for job, _ in batch:
            job.scheduled_s = now if job.scheduled_s is None else job.scheduled_s
        written = [part for job, tokens in batch for part in self._compute(job, tokens)]
        end += self._write_s([job for job, _ in batch])
        ended = tuple(job for job, _ in batch if self._answer(job, end))
        if self._service.stores != "none":
            self.stores.move(written, end)
        return Step(now, computes_s, compute_s, end, ended)

    def _schedule_running(self, batch: list[tuple[Job, int]], budget: int) -> int | None:
        """Let those that run go on; the tokens left, or None where one had to give up its blocks."""
        preempted = False
        for job in tuple(self.running):
            if job not in self.running or budget == 0:
                continue
            tokens = min(job.known - job.computed, budget)
            while job in self.running and not self._grow(job, tokens):
                self._preempt(self.running.pop())
                preempted = True
            if job in self.running:
                batch.append((job, tokens))
                budget -= tokens
        return None if preempted else budget

    def _grow(self, job: Job, tokens: int) -> bool:
        assert job.held is not None  # noqa: S101 - whoever runs holds blocks
        return self.caches.pool.grow(job.held, job.computed + tokens)

    def _preempt(self, job: Job) -> None:
        """It gives its blocks back and is computed anew; LMCache is not asked for it again."""
        assert job.held is not None  # noqa: S101
        self.caches.pool.release(job.held)
        job.held, job.computed, job.found, job.fetched, job.stage = None, 0, NOTHING, (), Stage.FOUND
        self.waiting.appendleft(job)

    def _admit_waiting(self, batch: list[tuple[Job, int]], budget: int, now: float) -> None:
        holding = [job for job in self.waiting if job.held is not None]
        for job in (*holding, *(job for job in self.waiting if job.held is None)):
            if budget == 0 or len(self.running) == self._service.running:
                return
            if not self._ready(job, now):
                continue
            tokens = self._take_blocks(job, budget, now)
            if tokens is None:
                return
            if tokens:
                self.waiting.remove(job)
                self.running.append(job)
                batch.append((job, tokens))
                budget -= tokens

    def _ready(self, job: Job, now: float) -> bool:
        """Whether nothing that the job waits for is still under way; asks for it the first time."""
        if job.stage is Stage.NEW:
            job.found = self.caches.find(job.prompt)
            tiers = self.caches.tiers
            if tiers is not None:
                job.fetched = tiers.fetched(job.found, self.caches.hit(job.prompt, job.found).local_tokens)
            job.stage = Stage.FOUND
            if tiers is not None and self._service.loads == "asynchronous":
                job.load = self._loader.submit(self._parts(job), now) if job.fetched else None
                job.stage = Stage.ASKED
        if job.stage is Stage.ASKED:
            if not self._answered(job, now):
                self._untold += 1
                return False
            job.stage = Stage.FOUND
        if job.stage is Stage.COPYING:
            assert job.ready_s is not None  # noqa: S101
            if job.ready_s > now:
                return False
            assert job.held is not None  # noqa: S101
            self.caches.pool.publish(job.held, job.computed)
            job.stage = Stage.READY
        return True

    def _answered(self, job: Job, now: float) -> bool:
        """Whether the engine knows by now what a lookup found, and that all of it is in host memory."""
        there = job.load is None or (job.load.ends_at is not None and job.load.ends_at <= now)
        every = self._service.lookup_steps
        if not self.running or not every:
            return there
        look, job.looks = job.looks, job.looks + 1
        if look % every == every - 1:
            job.answered = there
        return look > 0 and look % every == 0 and job.answered

    def _take_blocks(self, job: Job, budget: int, now: float) -> int | None:
        """How many tokens of a job are computed in this step: 0 where it only begins to load, None without room."""
        if job.stage is Stage.READY:
            tokens = min(job.known - job.computed, budget)
            return tokens if self._grow(job, tokens) else None
        hit = self.caches.hit(job.prompt, job.found)
        cached = hit.local_tokens + hit.external_tokens
        copies = hit.external_tokens > 0 and self._service.loads == "asynchronous"
        tokens = 0 if copies else min(job.known - cached, budget)
        reserved = self._reserved() if copies else 0
        held = self.caches.pool.admit(job.prompt.blocks, hit.blocks, cached + tokens, job.known, reserved)
        if held is None:
            return None
        job.held, job.computed = held, cached
        if job.hit is None:  # what a preempted request finds the second time is in no count, as in vLLM
            job.hit = hit
        if self.caches.tiers is not None:
            self.caches.tiers.use(job.prompt.chunks, job.found, job.fetched)
        if copies:
            moved = hit.external_tokens / self._chunk_tokens * self._chunk_bytes
            begin = max(now, self._copied_at) if self._service.copies_in_turn else now
            job.ready_s = begin + job.hit_fixed_s + moved / self._service.host_bytes_per_s
            self._copied_at = job.ready_s
            job.load_s = job.ready_s - (now if job.load is None else job.load.asked_at)
            job.stage = Stage.COPYING
        return tokens

    def _reserved(self) -> int:
        """What prompts that hold blocks still need: a load, which holds its own for long, must leave it to them."""
        return sum(
            self.caches.pool.missing(job.held, job.known)
            for job in (*self.running, *self.waiting)
            if job.held is not None and job.computed < job.prompt.tokens
        )

    def _load_in_step(self, batch: Sequence[Job], now: float) -> float:
        """When the loads that hold up this step have ended: one prompt after another, each with its T0."""
        if self._service.loads != "in-step":
            return now
        loading = [job for job in batch if job.scheduled_s is None and job.hit is not None and job.hit.external_tokens]
        end = now
        for job in loading:
            assert job.hit is not None  # noqa: S101
            end = self.loads.move(self._parts(job), end + job.hit_fixed_s)
            end += job.hit.external_tokens / self._chunk_tokens * self._chunk_bytes / self._service.host_bytes_per_s
        for job in loading:
            job.load_s = end - now
        return end

    def _parts(self, job: Job) -> list[Part]:
        assert self.caches.tiers is not None  # noqa: S101
        parts = self.caches.tiers.parts(job.prompt.chunks, job.fetched)
        job.remote_keys, job.remote_bytes = len(parts), sum(part.bytes for part in parts)
        return parts

    def _compute(self, job: Job, tokens: int) -> list[Part]:
        """The tokens have their KV; what of it is written to the remote tier, when the prompt is whole."""
        assert job.held is not None  # noqa: S101
        job.computed += tokens
        self.caches.pool.publish(job.held, job.computed)
        if self.caches.tiers is None or job.stored or job.computed < job.prompt.tokens:
            return []
        job.stored = True
        return self.caches.tiers.store(job.prompt.chunks, job.found)

    def _write_s(self, batch: Sequence[Job]) -> float:
        """How long all ranks wait for the one that writes what they computed."""
        if self._service.writer_bytes_per_s is None or self.caches.tiers is None:
            return 0.0
        done = [job for job in batch if job.computed == job.prompt.tokens]
        new = sum(len(job.prompt.chunks) - job.found.tokens // self._chunk_tokens for job in done)
        return new * self._chunk_bytes / self._service.writer_bytes_per_s

    def _answer(self, job: Job, end: float) -> bool:
        """The next token of the answer, if all before it is computed; whether it was the last."""
        if job.computed < job.known:
            return False
        job.token_s.append(end)
        job.known += 1
        if not job.done:
            return False
        assert job.held is not None  # noqa: S101
        self.caches.pool.release(job.held)
        self.running.remove(job)
        if self.caches.tiers is not None:
            self.caches.tiers.store_answer(job.prompt.chunks, job.known - 1)
        return True

    @property
    def _chunk_tokens(self) -> int:
        return 1 if self.caches.spec.lmcache is None else self.caches.spec.lmcache.chunk_tokens

    @property
    def _chunk_bytes(self) -> float:
        return 0.0 if self.caches.spec.lmcache is None else self.caches.spec.lmcache.chunk_bytes
