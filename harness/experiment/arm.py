"""One arm from its first process to its last: start, warm up, every workload and repeat, log, stop."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from harness.client import Carriage, connected
from harness.collect import Targets
from harness.config import Arm
from harness.experiment.attached import attach_of
from harness.experiment.cache_state import make_cold, make_warm, may_empty_all, touch_memory
from harness.experiment.halt import Halt
from harness.experiment.log_reading import reading_log
from harness.experiment.machine import Machine, link_bytes_per_s
from harness.experiment.placement import slowdowns
from harness.experiment.predict import predict_arm
from harness.experiment.prepare import Prepared
from harness.experiment.sampling import SamplingJob, sampling
from harness.experiment.session import ArmSession, RunPlace
from harness.experiment.target import asking, target_of
from harness.experiment.warm_up import canary, probe_machine, require_quiet, warm_up, warm_up_plan
from harness.experiment.workloads import granule_tokens
from harness.records import Caveat
from harness.stack import Process, RunningStack, attached, draw, last_line, ports_for, started, vllm

_ASKING_S = 10.0


@contextlib.asynccontextmanager
async def arm_stack(
    prepared: Prepared, arm: Arm, machine: Machine | None, logs: Path, say: Callable[[str], None]
) -> AsyncIterator[RunningStack]:
    """The arm's stack, started from the config or attached to."""
    engine, attach = prepared.experiment.engine, attach_of(prepared.experiment, arm)
    if attach is not None:
        assert prepared.servers is not None  # noqa: S101 - who starts an arm has asked
        metrics_urls = [one.metrics_url for one in prepared.servers[arm.name]]
        async with attached(arm.name, vllm.served_name(engine), attach, metrics_urls, logs) as stack:
            yield stack
        return
    blueprint = draw(
        engine,
        arm,
        model=prepared.model.path,
        kv_bytes=prepared.model.kv_bytes or 0,
        link_bytes_per_s=link_bytes_per_s(arm, machine) or 0.0,
        free=ports_for(arm, engine),
        folder=logs,
    )
    async with started(blueprint, engine, logs, say) as stack:
        yield stack


async def run_arm(
    prepared: Prepared, arm: Arm, place: RunPlace, halt: Halt, machine: Machine | None, *, probe: bool
) -> Machine | None:
    """Run every workload and repeat on `arm`; the machine as measured, if `probe` (on an arm without LMCache).

    Raises the halt's cause, or StackError, with everything measured so far in the journal and nothing left running.
    """
    async with arm_session(prepared, arm, place, halt, machine) as session:
        if not session.stack.processes:
            await require_quiet(session)
        place.progress.say("warming up")
        if arm.lmcache is not None and may_empty_all(session):
            await touch_memory(session, warm_up_plan(arm.name, prepared.workloads).passes[0].requests)
        warm = await warm_up(session, prepared.workloads)
        if probe and prepared.model.kv_bytes is not None:
            place.progress.say("measuring R, the prefill rate of this machine")
            machine = await probe_machine(session, prepared.workloads, prepared.model.kv_bytes)
        if prepared.predict:
            place.progress.say("predicting what this arm will do")
            predict_arm(prepared, arm, place, warm, machine)
        for workload in prepared.experiment.workloads:
            hits = prepared.workloads.hits_on(workload, arm)
            for repeat in range(prepared.experiment.repeats):
                plan = prepared.workloads.plan(workload, repeat, machine)
                place.progress.say(f"{workload.name}: making the caches cold, and proving it")
                await make_cold(
                    session, warm.known, canary(prepared.workloads, workload.name, repeat), workload.name, repeat
                )
                if plan.prewarm is not None:
                    place.progress.say(f"{workload.name}: prewarming")
                    await make_warm(session, workload, plan, granule_tokens(prepared.experiment, arm), repeat)
                for part in plan.passes:
                    await session.measure(part, workload.name, repeat, hits)
        place.progress.say(f"{'stopping' if session.stack.processes else 'leaving'} {arm.name}")
    return machine


@contextlib.asynccontextmanager
async def arm_session(
    prepared: Prepared, arm: Arm, place: RunPlace, halt: Halt, machine: Machine | None, *, sampled: bool = True
) -> AsyncIterator[ArmSession]:
    """The arm's stack, and a session to send to it; its log goes into the journal when the block ends.

    Its servers are sampled all the while, unless they are to be left alone.

    Raises the halt's cause, or StackError, with nothing left running.
    """
    logs = place.folder.logs(arm.name).absolute()
    index = prepared.experiment.arms.index(arm)
    async with contextlib.AsyncExitStack() as exits:
        starting = exits.enter_async_context(arm_stack(prepared, arm, machine, logs, place.progress.say))
        stack = await halt.guard(starting)
        client, urls = prepared.experiment.client, tuple(one.url for one in stack.engines)
        http = await exits.enter_async_context(asking(client, urls, _ASKING_S))
        target = target_of(client, urls)
        transport = await exits.enter_async_context(connected(target, place.clock))
        carriage = Carriage(transport, place.clock, target.timeouts, target.retries)
        placed = functools.partial(slowdowns, arm, client, started=bool(stack.processes))
        sampler = None
        if sampled:
            ask = functools.partial(asking, client, urls)
            job = SamplingJob(_targets(stack), place.identity.t0_ns, prepared.experiment.sample_every, ask)
            sampler = await exits.enter_async_context(sampling(job, place.journal.extend, place.caveats.append))
        session = ArmSession(place, arm, index, stack, target, carriage, client.workers, http, halt, sampler, placed)
        await exits.enter_async_context(_deaths_trip(session))
        exits.enter_context(reading_log(prepared, session))
        yield session


@contextlib.asynccontextmanager
async def _deaths_trip(session: ArmSession) -> AsyncIterator[None]:
    """While this is open, a service that ends trips the halt; a Valkey the arm can do without is a caveat."""
    stack, remote = session.stack, session.arm.valkey
    spared: tuple[Process, ...] = ()
    if remote is not None and remote.on_loss == "continue":
        spared = tuple(process for process in stack.processes if process.command.name.startswith("valkey-"))

    async def watch() -> None:
        session.halt.trip(await stack.died(spared))

    async def note_loss(process: Process) -> None:
        status = await process.exited()
        at_s = (session.place.clock.now_ns() - session.place.identity.t0_ns) / 1e9
        text = f"{stack.arm}: {process.command.name} ended {at_s:.1f} s into the run (status {status})"
        remedy = "the chunks it held are misses from then on, until it is back and they are stored again"
        session.place.caveats.append(Caveat("valkey_lost", text, remedy, stack.arm))
        session.place.progress.say(text)

    async def note_silence(follower: Process) -> None:
        status = await follower.exited()
        text = f"{stack.arm}: the command that prints LMCache's log ended early, with {status}"
        last = last_line(follower.log)
        said = f"{text}; its last line: {last}"
        session.place.caveats.append(Caveat("lmcache_log", said, "loads may be missing", stack.arm))
        session.place.progress.say(f"{text}: {last}")

    tasks = [asyncio.create_task(watch()), *(asyncio.create_task(note_loss(process)) for process in spared)]
    if stack.follower is not None:
        tasks.append(asyncio.create_task(note_silence(stack.follower)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


def _targets(stack: RunningStack, repeat: int = 0) -> Targets:
    return Targets(
        arm=stack.arm,
        repeat=repeat,
        vllm_metrics_urls=tuple(one.metrics_url for one in stack.engines if one.metrics_url is not None),
        lmcache_metrics_urls=tuple(page for one in stack.engines if one.lmcache_url for page in one.lmcache_pages),
        lmcache_inside_urls=tuple(page for one in stack.engines if not one.lmcache_url for page in one.lmcache_pages),
        valkey_urls=stack.valkey_urls,
        services=stack.pids,
    )
