"""The probe: R, s, T0 and B of a stack that it starts or is given, arm by arm, and what follows from them."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import uvloop

from harness.client import MonotonicClock
from harness.config import Arm
from harness.errors import ConfigError, HarnessError, StackError
from harness.experiment.arm import arm_session
from harness.experiment.arm_log import ArmLog
from harness.experiment.attached import run_versions
from harness.experiment.facts import machine_facts
from harness.experiment.halt import Halt, InterruptedRun, interruptible
from harness.experiment.join import join_servers
from harness.experiment.machine import Machine, link_bytes_per_s
from harness.experiment.placement import placement_of
from harness.experiment.prepare import Prepared, available_bytes, fits_together, require_engine
from harness.experiment.probe_arms import groups, in_order
from harness.experiment.probe_engine import Hits, forget, measure_cold, measure_hits
from harness.experiment.probe_points import FEWEST_LENGTHS, TAIL_TOKENS, probe_lengths, probe_prompts
from harness.experiment.progress import Progress
from harness.experiment.raw_valkey import RawPoint, entered, sweep
from harness.experiment.session import ArmSession, RunIdentity, RunPlace
from harness.experiment.target import require_client
from harness.experiment.warm_up import require_quiet, warm_up
from harness.model.fit import Line, fit_hits, fit_prefill
from harness.schedule import PlannedRequest
from harness.store import Journal, RunFolder, Status, consolidate

COPIES = 4
_RAW_S = 0.6


@dataclass(frozen=True, slots=True)
class ArmMeasured:
    """What the probe saw of an arm. Where longer hits do not take longer (host memory, say) the line is flat."""

    arm: Arm
    link_bytes_per_s: float | None
    hits: Hits
    line: Line
    raw: tuple[RawPoint, ...]


@dataclass(slots=True)
class Measured:
    """What the probe saw: cold prompts, then arm by arm. `seconds` went into the prompts that R, T0 and B are from.

    `stores`: the engine of the cold prompts has an LMCache that stored them meanwhile, since no other was at hand.
    """

    prefill: Line | None = None
    stores: bool = False
    machine: Machine | None = None
    arms: list[ArmMeasured] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ProbeEnd:
    """Where the probe's rows are, and what it measured."""

    folder: Path
    measured: Measured


def run_probe(prepared: Prepared, results_dir: Path, progress: Progress, *, copies: int = COPIES) -> ProbeEnd:
    """Measure every arm of `prepared`; all rows go into a run folder of their own, as pass `probe`.

    `copies` prompts of each length are measured. Of attached servers only those caches are emptied that may be
    (`attach.resets`). Raises ConfigError before anything starts, StackError when something does not answer, is busy or
    never hits, KeyboardInterrupt after Ctrl-C; nothing is left running then.
    """
    require_engine(prepared)
    require_client(prepared.experiment.client, prepared.path)
    if prepared.model.kv_bytes is None and not any(arm.valkey for arm in prepared.arms):
        raise ConfigError(
            "s is not known, and no arm has a Valkey whose bytes could be counted",
            where=f"{prepared.path}: engine.model",
            remedy="give the model's folder, or --kv-bytes 48.4KB",
        )
    try:
        return uvloop.run(_Probe(prepared, results_dir, progress, copies).run())
    except InterruptedRun as interrupt:
        raise KeyboardInterrupt from interrupt


class _Probe:
    def __init__(self, prepared: Prepared, results_dir: Path, progress: Progress, copies: int) -> None:
        self._prepared, self._copies, self._lengths = prepared, copies, lengths_of(prepared)
        self._clock, self._progress, self._halt = MonotonicClock(), progress, Halt()
        self._id = secrets.token_hex(3)
        name = f"{prepared.experiment.experiment}-probe"
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        self._folder = RunFolder.create(results_dir, name, self._id, stamp)
        self._measured = Measured()

    async def run(self) -> ProbeEnd:
        """Arm after arm; what was measured is in the folder whatever happens."""
        prepared = self._prepared
        name = f"{prepared.experiment.experiment}-probe"
        identity = RunIdentity(self._id, name, self._clock.now_ns(), self._clock.unix_ns())
        spec = prepared.experiment.model_copy(update={"arms": prepared.arms}).model_dump(mode="json")
        facts = {
            "config": str(prepared.path),
            "spec": spec,
            "versions": run_versions(prepared.servers),
            "machine": machine_facts(),
        }
        self._folder.update({**facts, "model": prepared.model})
        trouble: Exception | None = None
        with Journal(self._folder.path, self._id) as journal, interruptible(lambda: self._halt.trip(InterruptedRun())):
            place = RunPlace(identity, self._folder, journal, self._progress, self._clock)
            try:
                for together in self._groups():
                    async with self._started(together, place) as sessions:
                        for session in sessions:
                            await self._arm(session)
            except (HarnessError, InterruptedRun) as error:
                trouble = error
            expected = journal.counts
        logs = {arm.name: ArmLog(was_read=False) for arm in prepared.arms if arm.lmcache is not None} | place.logs
        consolidate(
            self._folder.path, expected=expected, join=lambda tables: join_servers(tables, logs, place.caveats.append)
        )
        self._folder.update(
            {"planned": place.planned, "caveats": [asdict(one) for one in place.caveats]},
            Status.COMPLETE if trouble is None else Status.FAILED,
        )
        if trouble is not None:
            raise trouble
        return ProbeEnd(self._folder.path, self._measured)

    def _groups(self) -> list[list[Arm]]:
        """The arms, those together that are started together: to start an engine takes longer than to measure it."""
        prepared, own = self._prepared, self._prepared.experiment.engine.backend == "vllm-cpu"
        arms = in_order(prepared.arms, starts=prepared.experiment.engine.backend != "attach")
        return groups(arms, lambda some: own and fits_together(prepared, some, available_bytes()))

    @contextlib.asynccontextmanager
    async def _started(self, arms: Sequence[Arm], place: RunPlace) -> AsyncIterator[list[ArmSession]]:
        """Sessions of `arms`, all ready; raises what kept the first of them from getting ready."""
        async with contextlib.AsyncExitStack() as exits:
            names = " and ".join(arm.name for arm in arms)
            ours = self._prepared.experiment.engine.backend != "attach"
            self._progress.say(f"{'starting' if ours else 'asking'} {names}")
            starting = [exits.enter_async_context(self._session(arm, place)) for arm in arms]
            ended = await asyncio.gather(*starting, return_exceptions=True)
            for one in ended:
                if isinstance(one, BaseException):
                    raise one
            yield [one for one in ended if not isinstance(one, BaseException)]
            self._progress.say(f"{'stopping' if ours else 'leaving'} {names}")

    def _session(self, arm: Arm, place: RunPlace) -> contextlib.AbstractAsyncContextManager[ArmSession]:
        prepared = self._prepared
        if arm not in prepared.experiment.arms:
            prepared = prepared.for_probe(arm)
        return arm_session(prepared, arm, place, self._halt, self._measured.machine, sampled=False)

    async def _arm(self, session: ArmSession) -> None:
        self._progress.say(f"arm {session.arm.name}: warming up")
        await require_quiet(session)
        emptied = partial(forget, session, host_tier=session.arm.valkey is None)
        await warm_up(session, self._prepared.workloads, emptied if "engine" in session.stack.resets else None)
        if self._measured.prefill is None:
            await self._cold(session)
        if session.arm.lmcache is not None:
            self._measured.arms.append(await self._hits(session))

    async def _cold(self, session: ArmSession) -> None:
        self._progress.say("measuring R with cold prompts")
        began_ns = self._clock.now_ns()
        points = await measure_cold(session, self._prompts(session.arm, "cold"))
        self._took(began_ns)
        with _measured_by(session):
            line = fit_prefill([point.tokens for point in points], [point.seconds for point in points])
        self._measured.prefill, self._measured.stores = line, session.arm.lmcache is not None
        longest, kv_bytes = self._prepared.workloads.longest_prompt_tokens, self._prepared.model.kv_bytes
        if kv_bytes is not None:
            self._measured.machine = Machine(longest / line.at(longest), kv_bytes, longest)

    async def _hits(self, session: ArmSession) -> ArmMeasured:
        arm = session.arm
        assert arm.lmcache is not None  # noqa: S101 - the caller looked
        self._progress.say("measuring T0 and B with hits" if arm.valkey else "measuring hits from host memory")
        began_ns = self._clock.now_ns()
        hits = await measure_hits(
            session,
            self._prompts(arm, "hits"),
            arm.lmcache.chunk_size,
            placement_of(arm),
            host_tier=arm.valkey is None,
        )
        self._took(began_ns)
        tokens, seconds = [point.tokens for point in hits.points], [point.seconds for point in hits.points]
        with _measured_by(session):
            line = fit_hits(tokens, seconds, [point.slowdown for point in hits.points])
        link = link_bytes_per_s(arm, self._measured.machine)
        return ArmMeasured(arm, link, hits, line, await self._raw(session))

    def _took(self, began_ns: int) -> None:
        self._measured.seconds += (self._clock.now_ns() - began_ns) / 1e9

    async def _raw(self, session: ArmSession) -> tuple[RawPoint, ...]:
        of_rank, lmcache = self._prepared.model.kv_bytes_per_rank, session.arm.lmcache
        if not session.stack.remote_urls or of_rank is None or lmcache is None:
            return ()
        value_bytes = of_rank * lmcache.chunk_size
        endpoints, credentials = entered(session.stack.remote_urls)
        return await asyncio.to_thread(sweep, endpoints, value_bytes, _RAW_S, self._progress.say, credentials)

    def _prompts(self, arm: Arm, what: str) -> tuple[PlannedRequest, ...]:
        """Prompts of several lengths that no earlier probe sent."""
        salt = f"probe/{self._id}/{arm.name}/{what}"
        return probe_prompts(self._prepared.workloads.salted(salt), self._lengths, self._copies)


def lengths_of(prepared: Prepared) -> tuple[int, ...]:
    """The lengths of prompts that tell fixed cost from rate. Raises ConfigError where too few fit."""
    engine, longest = prepared.experiment.engine, prepared.workloads.longest_prompt_tokens
    granule = max((one.lmcache.chunk_size for one in prepared.arms if one.lmcache), default=engine.block_size)
    limits = [engine.max_model_len, engine.kv_cache_tokens, prepared.model.max_positions]
    if engine.backend == "attach":
        limits.append(longest + 1)  # what it takes is not known: no prompt is longer than was said
    most = min((limit - 1 for limit in limits if limit is not None), default=None)
    lengths = probe_lengths(longest, granule, most)
    if len(lengths) < FEWEST_LENGTHS:
        raise ConfigError(
            f"prompts have at most {longest:,} tokens and a chunk {granule}: {len(lengths)} lengths of whole chunks "
            f"are too few points for a fit{'' if lengths else ', and no whole chunk is ever stored'}",
            where=str(prepared.path),
            remedy=f"{FEWEST_LENGTHS} are needed: longer prompts (--longest, document_tokens), or a smaller chunk_size",
        )
    return lengths


def prompt_of(prepared: Prepared, arm: Arm) -> int:
    """The length that a verdict is about if nobody names one: the whole chunks of the longest prompt."""
    granule = arm.lmcache.chunk_size if arm.lmcache is not None else 1
    longest = prepared.workloads.longest_prompt_tokens
    return max(1, (longest - 1) // granule) * granule if longest > granule + TAIL_TOKENS else longest


@contextlib.contextmanager
def _measured_by(session: ArmSession) -> Iterator[None]:
    """What cannot be fitted was measured: an error of the stack, not of the config."""
    try:
        yield
    except ConfigError as error:
        where = f"arm {session.arm.name}: {session.stack.url}"
        raise StackError(error.what, where=where, remedy=error.remedy) from error
