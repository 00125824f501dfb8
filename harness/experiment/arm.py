"""One arm from its first process to its last: start, warm up, every workload and repeat, log, stop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx

from harness.client import Carriage, connected
from harness.collect import Targets
from harness.config import Arm
from harness.experiment.cache_state import make_cold, make_warm
from harness.experiment.halt import Halt
from harness.experiment.log_reading import reading_log
from harness.experiment.machine import Machine
from harness.experiment.predict import predict_arm
from harness.experiment.prepare import Prepared
from harness.experiment.sampling import SamplingJob, sampling
from harness.experiment.session import ArmSession, RunPlace
from harness.experiment.target import target_of
from harness.experiment.warm_up import canary, probe_machine, warm_up
from harness.experiment.workloads import granule_tokens
from harness.records import Caveat
from harness.stack import Process, RunningStack, attached, draw, ports_for, started


@contextlib.asynccontextmanager
async def arm_stack(
    prepared: Prepared, arm: Arm, machine: Machine | None, logs: Path, say: Callable[[str], None]
) -> AsyncIterator[RunningStack]:
    """The arm's stack, started from the config or attached to."""
    engine = prepared.experiment.engine
    attach = arm.attach or engine.attach
    if engine.backend == "attach" and attach is not None:
        async with attached(arm.name, engine, attach, logs) as stack:
            yield stack
        return
    rate = None if machine is None else machine.link_bytes_per_s(arm)
    if rate is None and arm.valkey is not None and arm.valkey.link is not None:
        rate = arm.valkey.link.bandwidth.bytes_per_s
    blueprint = draw(
        engine,
        arm,
        model=prepared.model.path,
        kv_bytes=prepared.model.kv_bytes or 0,
        link_bytes_per_s=rate or 0.0,
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
        place.progress.say("warming up")
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
        place.progress.say(f"stopping {arm.name}")
    return machine


@contextlib.asynccontextmanager
async def arm_session(
    prepared: Prepared, arm: Arm, place: RunPlace, halt: Halt, machine: Machine | None
) -> AsyncIterator[ArmSession]:
    """The arm's stack, sampled, and a session to send to it; its log goes into the journal when the block ends.

    Raises the halt's cause, or StackError, with nothing left running.
    """
    logs = place.folder.logs(arm.name).absolute()
    index = prepared.experiment.arms.index(arm)
    async with contextlib.AsyncExitStack() as exits:
        starting = exits.enter_async_context(arm_stack(prepared, arm, machine, logs, place.progress.say))
        stack = await halt.guard(starting)
        http = await exits.enter_async_context(httpx.AsyncClient(timeout=10.0))
        target = target_of(prepared.experiment.client, tuple(one.url for one in stack.engines))
        transport = await exits.enter_async_context(connected(target, place.clock))
        carriage = Carriage(transport, place.clock, target.timeouts, target.retries)
        workers = prepared.experiment.client.workers
        job = SamplingJob(_targets(stack), place.identity.t0_ns, prepared.experiment.sample_every)
        samples = sampling(job, place.journal.extend, place.caveats.append)
        sampler = await exits.enter_async_context(samples)
        session = ArmSession(place, arm, index, stack, target, carriage, workers, http, halt, sampler)
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
        session.place.caveats.append(Caveat("valkey_lost", text, remedy))
        session.place.progress.say(text)

    tasks = [asyncio.create_task(watch()), *(asyncio.create_task(note_loss(process)) for process in spared)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


def _targets(stack: RunningStack, repeat: int = 0) -> Targets:
    return Targets(
        arm=stack.arm,
        repeat=repeat,
        vllm_metrics_urls=tuple(one.metrics_url for one in stack.engines),
        lmcache_metrics_urls=tuple(page for one in stack.engines for page in one.lmcache_pages),
        valkey_urls=stack.valkey_urls,
        services=stack.pids,
    )
