"""The sampler of an arm, in its process: what it sees comes over whole, and whatever happens to it costs no more."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import psutil
import pytest

from harness.client import MonotonicClock
from harness.collect import Targets
from harness.experiment.sampling import ArmSampler, SamplingJob, sampling
from harness.records import Caveat, ServerSample

pytestmark = pytest.mark.integration

NOWHERE = "http://127.0.0.1:1/metrics"


def _job(*unanswered: str) -> SamplingJob:
    targets = Targets("a", 3, lmcache_metrics_urls=unanswered, services={"client": os.getpid()})
    return SamplingJob(targets, MonotonicClock().now_ns(), 0.05)


def _samplers() -> list[psutil.Process]:
    children = psutil.Process().children()
    return [one for one in children if one.status() != psutil.STATUS_ZOMBIE and _is_sampler(one)]


def _is_sampler(process: psutil.Process) -> bool:
    return "harness.experiment.sampler" in process.cmdline()


async def _until_seen(sampler: ArmSampler, lots: list[Sequence[ServerSample]], rounds: int) -> None:
    while len({sample.t_ns for lot in lots for sample in lot}) < rounds:
        await sampler.hand_over()


def test_every_sample_is_handed_over_once_and_gaps_are_said() -> None:
    """Lot after lot in order, the last on leaving; times count from the run's origin."""

    async def run() -> tuple[list[Sequence[ServerSample]], list[Caveat], int]:
        lots: list[Sequence[ServerSample]] = []
        notes: list[Caveat] = []
        began_ns = MonotonicClock().now_ns()
        async with sampling(_job(NOWHERE), lots.append, notes.append) as sampler:
            await _until_seen(sampler, lots, 3)
            handed = len(lots)
        assert len(lots) == handed + 1
        return lots, notes, MonotonicClock().now_ns() - began_ns

    lots, (note,), took_ns = asyncio.run(run())
    memory = [sample for lot in lots for sample in lot if sample.name == "rss_bytes"]
    times = [sample.t_ns for sample in memory]
    assert times == sorted(set(times))
    assert 0 < times[0] < times[-1] < took_ns
    assert {(sample.arm, sample.repeat, sample.instance) for sample in memory} == {("a", 3, "client")}
    assert note.kind == "sampling_gaps"
    assert "samples of lmcache are missing" in note.text
    assert _samplers() == []


def test_a_sampler_that_dies_costs_its_samples_only() -> None:
    """What was handed over stays, what follows is missing and said so, with the status; nothing raises or waits."""

    async def run() -> tuple[list[Sequence[ServerSample]], list[Caveat]]:
        lots: list[Sequence[ServerSample]] = []
        notes: list[Caveat] = []
        async with sampling(_job(), lots.append, notes.append) as sampler:
            await _until_seen(sampler, lots, 1)
            (process,) = _samplers()
            process.kill()
            await sampler.hand_over()
            await sampler.hand_over()
        return lots, notes

    lots, (note,) = asyncio.run(run())
    assert any(lots)
    assert note.kind == "sampling_gaps"
    assert f"status {-signal.SIGKILL}" in note.text


def test_a_sampler_outlives_nobody() -> None:
    """The process that gives the orders is killed: its sampler ends by itself."""
    code = (
        "import asyncio; from tests.integration.test_sampling import _job, _until_seen, sampling\n"
        "async def run():\n"
        "    lots = []\n"
        "    async with sampling(_job(), lots.append, print) as sampler:\n"
        "        await _until_seen(sampler, lots, 1)\n"
        "        print(flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(run())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (sampler,) = [one for one in psutil.Process(process.pid).children() if _is_sampler(one)]
        process.kill()
        process.wait()
        for _ in range(600):
            if not sampler.is_running() or sampler.status() == psutil.STATUS_ZOMBIE:
                return
            time.sleep(0.05)
        raise AssertionError("it still runs")
