"""The sampler of an arm in a process of its own, so that no send waits for a scrape, or for Python's one lock.

Nothing passes between the two while requests are sent: what was seen is handed over when a pass has ended.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

import httpx

from harness.client import frames
from harness.collect import Targets
from harness.records import Caveat, ServerSample

_HAND_OVER_S = 30.0
_END_S = 10.0


@dataclass(frozen=True, slots=True)
class SamplingJob:
    """What the process is told first: what to sample, how often, and the clock's reading that its times count from.

    `http` makes the client that asks servers, given a limit in seconds; None: one that needs no key.
    """

    targets: Targets
    t0_ns: int
    interval_s: float
    http: Callable[[float], httpx.AsyncClient] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What it answers: the samples since the last time, and all gaps so far by instance, with their last reasons."""

    samples: Sequence[ServerSample]
    gaps: Mapping[str, int]
    reasons: Mapping[str, str]


class ArmSampler:
    """The process, and where its samples go. One that died or hangs costs its samples only, and is in `trouble`."""

    def __init__(self, child: asyncio.subprocess.Process, keep: Callable[[Sequence[ServerSample]], None]) -> None:
        self._child = child
        self._keep = keep
        self._seen = Seen((), {}, {})
        self.trouble: str | None = None

    @property
    def gaps(self) -> Mapping[str, int]:
        """How many scrapes of each instance failed."""
        return self._seen.gaps

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why the last of them did."""
        return self._seen.reasons

    async def hand_over(self) -> None:
        """Keep what it has seen since the last time."""
        if self.trouble is not None:
            return
        assert self._child.stdout is not None  # noqa: S101 - started with a pipe
        self.tell("hand over")
        try:
            self._seen = await asyncio.wait_for(frames.read(self._child.stdout), _HAND_OVER_S)
        except EOFError:
            self.trouble = f"the sampler ended with status {await self._child.wait()}"
        except TimeoutError:
            self.trouble = f"the sampler did not answer within {_HAND_OVER_S:g} s"
        else:
            self._keep(self._seen.samples)

    def tell(self, message: object) -> None:
        """Write to it; what is said to a process that is not there is lost."""
        if self._child.stdin is not None and not self._child.stdin.is_closing():
            self._child.stdin.write(frames.encode(message))

    async def end(self) -> None:
        """Close its orders, upon which it ends, and wait for that."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._child.wait(), _END_S)
        if self._child.returncode is None:
            self._child.kill()
            await self._child.wait()


@contextlib.asynccontextmanager
async def sampling(
    job: SamplingJob, keep: Callable[[Sequence[ServerSample]], None], note: Callable[[Caveat], None]
) -> AsyncIterator[ArmSampler]:
    """Sample from here on; on leaving, `keep` has got every sample, and `note` what is missing."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "harness.experiment.sampler"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in a terminal is for the process that gives the orders
    )
    sampler = ArmSampler(child, keep)
    sampler.tell(job)
    try:
        yield sampler
    finally:
        await sampler.hand_over()
        await sampler.end()
        _note_gaps(job.targets.arm, sampler, note)


def _note_gaps(arm: str, sampler: ArmSampler, note: Callable[[Caveat], None]) -> None:
    """Say which servers did not answer a scrape, and whether the sampler lived."""
    for instance, count in sampler.gaps.items():
        text = f"{arm}: {count} samples of {instance} are missing: {sampler.reasons[instance]}"
        note(Caveat("sampling_gaps", text, arm=arm))
    if sampler.trouble is not None:
        note(Caveat("sampling_gaps", f"{arm}: {sampler.trouble}: samples from then on are missing", arm=arm))
