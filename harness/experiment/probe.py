"""The probe: R, s, T0 and B of a stack that it starts or is given, arm by arm, and what follows from them."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
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
from harness.experiment.machine import Machine
from harness.experiment.prepare import Prepared, require_engine
from harness.experiment.probe_engine import Hits, measure_cold, measure_hits
from harness.experiment.probe_points import (
    TAIL_TOKENS,
    Evidence,
    Point,
    probe_lengths,
    probe_prompts,
    why_no_hits,
)
from harness.experiment.progress import Progress
from harness.experiment.raw_valkey import RawPoint, entered, sweep
from harness.experiment.session import ArmSession, RunIdentity, RunPlace
from harness.experiment.target import require_client
from harness.experiment.warm_up import require_quiet, warm_up
from harness.model.fit import Line, fit_hits, fit_prefill
from harness.schedule import PlannedRequest
from harness.store import Journal, RunFolder, Status, consolidate

COPIES = 4
_RAW_S = 0.8


@dataclass(frozen=True, slots=True)
class ArmMeasured:
    """What the probe saw of an arm. `line` is None where longer hits do not take longer (host memory, say)."""

    arm: Arm
    link_bytes_per_s: float | None
    hits: Hits
    line: Line | None
    raw: tuple[RawPoint, ...]


@dataclass(slots=True)
class Measured:
    """What the probe saw: cold prompts, then arm by arm. `seconds` were spent sending, starts not included."""

    prefill: Line | None = None
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
        self._prepared, self._copies = prepared, copies
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
                for arm in _in_order(prepared):
                    self._progress.say(f"arm {arm.name}")
                    await self._arm(arm, place)
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

    async def _arm(self, arm: Arm, place: RunPlace) -> None:
        prepared = self._prepared
        if arm not in prepared.experiment.arms:
            prepared = prepared.for_probe(arm)
        async with arm_session(prepared, arm, place, self._halt, self._measured.machine) as session:
            await require_quiet(session)
            self._progress.say("warming up")
            await warm_up(session, self._prepared.workloads)
            began_ns = self._clock.now_ns()
            if self._measured.prefill is None:
                await self._cold(session)
            if arm.lmcache is not None:
                self._measured.arms.append(await self._hits(session))
            self._measured.seconds += (self._clock.now_ns() - began_ns) / 1e9
            self._progress.say(f"{'stopping' if session.stack.processes else 'leaving'} {arm.name}")

    async def _cold(self, session: ArmSession) -> None:
        self._progress.say("measuring R with cold prompts")
        points = await measure_cold(session, self._prompts(session.arm, "cold"))
        line = _fitted(fit_prefill, points, session)
        self._measured.prefill = line
        longest, kv_bytes = self._prepared.workloads.longest_prompt_tokens, self._prepared.model.kv_bytes
        if kv_bytes is not None:
            self._measured.machine = Machine(longest / line.at(longest), kv_bytes, longest)

    async def _hits(self, session: ArmSession) -> ArmMeasured:
        arm = session.arm
        assert arm.lmcache is not None  # noqa: S101 - the caller looked
        self._progress.say("measuring T0 and B with hits" if arm.valkey else "measuring hits from host memory")
        hits = await measure_hits(
            session,
            self._prompts(arm, "hits"),
            arm.lmcache.chunk_size,
            host_tier=arm.valkey is None,
        )
        try:
            line = _fitted(fit_hits, hits.points, session)
        except StackError:
            if arm.valkey is not None:
                raise
            line = None  # host memory may be too fast for its bandwidth to be seen
        machine = self._measured.machine
        link = None if machine is None else machine.link_bytes_per_s(arm)
        return ArmMeasured(arm, link, hits, line, await self._raw(session))

    async def _raw(self, session: ArmSession) -> tuple[RawPoint, ...]:
        of_rank, lmcache = self._prepared.model.kv_bytes_per_rank, session.arm.lmcache
        if not session.stack.remote_urls or of_rank is None or lmcache is None:
            return ()
        value_bytes = of_rank * lmcache.chunk_size
        endpoints, credentials = entered(session.stack.remote_urls)
        return await asyncio.to_thread(sweep, endpoints, value_bytes, _RAW_S, self._progress.say, credentials)

    def _prompts(self, arm: Arm, what: str) -> tuple[PlannedRequest, ...]:
        """Prompts of several lengths that no earlier probe sent."""
        workloads, engine = self._prepared.workloads, self._prepared.experiment.engine
        granule = next((one.lmcache.chunk_size for one in self._prepared.arms if one.lmcache), engine.block_size)
        limits = [engine.max_model_len, engine.kv_cache_tokens, self._prepared.model.max_positions]
        longest = workloads.longest_prompt_tokens
        if engine.backend == "attach":
            limits.append(longest + 1)  # what it takes is not known: no prompt is longer than was said
        most = min((limit - 1 for limit in limits if limit is not None), default=None)
        lengths = probe_lengths(longest, granule, most)
        if not lengths:
            raise why_no_hits(Evidence(longest, granule), f"arm {arm.name}")
        salt = f"probe/{self._id}/{arm.name}/{what}"
        return probe_prompts(workloads.salted(salt), lengths, self._copies)


def prompt_of(prepared: Prepared, arm: Arm) -> int:
    """The length that a verdict is about if nobody names one: the whole chunks of the longest prompt."""
    granule = arm.lmcache.chunk_size if arm.lmcache is not None else 1
    longest = prepared.workloads.longest_prompt_tokens
    return max(1, (longest - 1) // granule) * granule if longest > granule + TAIL_TOKENS else longest


def _in_order(prepared: Prepared) -> Sequence[Arm]:
    """Arms without LMCache first, where R is measured; one is started for that if there is none to start."""
    arms = sorted(prepared.arms, key=lambda arm: arm.lmcache is not None)
    if arms[0].lmcache is not None and prepared.experiment.engine.backend != "attach":
        return [Arm(name="probe"), *arms]
    return arms


def _fitted(
    fit: Callable[[Sequence[float], Sequence[float]], Line], points: Sequence[Point], session: ArmSession
) -> Line:
    """The fit through measured points. Raises StackError where they tell nothing."""
    try:
        return fit([point.tokens for point in points], [point.seconds for point in points])
    except ConfigError as error:
        raise StackError(
            error.what, where=f"arm {session.arm.name}: {session.stack.url}", remedy=error.remedy
        ) from error
