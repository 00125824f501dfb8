"""A run against a baseline, and against the nights before it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from harness.analysis import Gate, Ruling, gate_on_baseline, gate_on_history, history_lines, summarise
from harness.errors import IncomparableError
from harness.records import Run
from tests.fakes.runs import FakePass, fake_run

TRUTH = np.random.default_rng(3).gamma(40, 5, size=300)
META = {"versions": {"vllm": "0.31.0"}, "plans": {"trace/0": {"hash": "a"}}}


def run_of(factor: float, seed: int = 0, noise: float = 0.01, failed: int = 0, **meta: Any) -> Run:
    """The same requests, each about `factor` times as slow; the first `failed` time out."""
    values = TRUTH * factor * np.random.default_rng(seed).lognormal(0, noise, size=len(TRUTH))
    ttft = [None if at < failed else float(ms) for at, ms in enumerate(values)]
    return fake_run([FakePass("recompute", ttft)], **(META | meta))


def ruling(gate: Gate, name: str) -> Ruling:
    """The ruling on one figure."""
    return next(check.ruling for check in gate.checks if check.name == name)


@pytest.mark.parametrize(
    ("factor", "expected"), [(1.0, Ruling.PASSED), (0.8, Ruling.PASSED), (1.05, Ruling.NOISY), (1.2, Ruling.REGRESSED)]
)
def test_paired(factor: float, expected: Ruling) -> None:
    """Paired by row, an equal or faster run passes, a fifth slower fails, and one at the limit cannot be told."""
    assert gate_on_baseline(run_of(factor, seed=1), run_of(1.0), 0.05, resamples=200).ruling is expected


def test_unpaired() -> None:
    """Runs of other plans are refused; allowed, they are compared by their figures alone, with wider intervals."""
    other = run_of(1.0, plans={"trace/0": {"hash": "b"}})
    with pytest.raises(IncomparableError, match=r"plan\.trace/0"):
        gate_on_baseline(other, run_of(1.0), 0.05)
    gate = gate_on_baseline(other, run_of(1.0), 0.05, allow=["plan"], resamples=200)
    paired = gate_on_baseline(run_of(1.0), run_of(1.0), 0.05, resamples=200)
    ratios = [next(check.ratio for check in one.checks if check.name == "ttft_p50") for one in (gate, paired)]
    assert ratios[0] is not None
    assert ratios[1] is not None
    assert (ratios[0].high or 0) > (ratios[1].high or 0)
    assert any("plan.trace/0" in note for note in gate.notes)


def test_failures() -> None:
    """More failed requests than before are a regression, a few more are not; and so is not one success."""
    assert (
        ruling(gate_on_baseline(run_of(1.0, failed=30), run_of(1.0), 0.05, resamples=20), "failures")
        is Ruling.REGRESSED
    )
    assert ruling(gate_on_baseline(run_of(1.0, failed=2), run_of(1.0), 0.05, resamples=20), "failures") is Ruling.PASSED
    assert gate_on_baseline(run_of(1.0, failed=300), run_of(1.0), 0.05, resamples=20).ruling is Ruling.REGRESSED


def test_a_missing_arm() -> None:
    """An arm that the baseline has and the run has not cannot be told, and so neither can the run."""
    both = fake_run([FakePass(arm, [float(ms) for ms in TRUTH]) for arm in ("recompute", "host")], **META)
    gate = gate_on_baseline(run_of(1.0), both, 0.05, resamples=200)
    assert ruling(gate, "missing") is Ruling.NOISY
    assert gate.ruling is Ruling.NOISY


def test_an_unstable_p50_is_said_to_be_one() -> None:
    """The p50 of a run whose queue grows is ruled upon, with the caveat that it depends on the trace's length."""
    climbing = fake_run([FakePass("recompute", [100.0 + at for at in range(300)])], **META)
    assert any(
        "rises through the run" in note for note in gate_on_baseline(climbing, climbing, 0.05, resamples=20).notes
    )
    assert not gate_on_baseline(run_of(1.0), run_of(1.0), 0.05, resamples=20).notes


def test_few_requests_are_named() -> None:
    """A pass of ten requests has no figure worth a ruling; it is named, and its failures are still held against it."""
    few = fake_run([FakePass("recompute", [5.0] * 10)], **META)
    gate = gate_on_baseline(few, few, 0.05, resamples=20)
    assert [check.name for check in gate.checks] == ["failures"]
    assert "recompute, trace/replay" in gate.notes[0]


def nights(factors: Sequence[float], **changes: Any) -> list[dict[str, Any]]:
    """A history: a run a night; `changes` are those of the last night's run.json."""
    lines: list[dict[str, Any]] = []
    for night, factor in enumerate(factors):
        meta = changes if night == len(factors) - 1 else {}
        run = run_of(factor, seed=night, run_id=f"r{night:02}", utc=f"202611{night + 1:02}T020000Z", **meta)
        lines += history_lines(run, summarise(run, 20))
    return lines


def tonight(history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last night's lines."""
    return [line for line in history if line["run_id"] == history[-1]["run_id"]]


def test_history() -> None:
    """Stable nights pass; a step tonight is a regression, and names nobody else's nights."""
    steady = nights([1.0] * 9)
    assert gate_on_history(tonight(steady), steady, 0.05, 14).ruling is Ruling.PASSED
    step = nights([*[1.0] * 8, 1.3])
    gate = gate_on_history(tonight(step), step, 0.05, 14)
    assert gate.ruling is Ruling.REGRESSED
    assert "since 20261109" in next(check.text for check in gate.checks if check.name == "ttft_p50")


def test_only_the_last_nights_count() -> None:
    """A step that lies further back than the nights looked at is the level by now."""
    history = nights([*[1.0] * 6, *[1.3] * 7])
    assert gate_on_history(tonight(history), history, 0.05, 14).ruling is Ruling.REGRESSED
    assert gate_on_history(tonight(history), history, 0.05, 6).ruling is Ruling.PASSED


def test_nights_of_another_version_are_left_out() -> None:
    """Tonight on another vLLM has no nights to be held against, and says so; unless the key is allowed."""
    history = nights([1.0] * 9, versions={"vllm": "0.32.0"})
    gate = gate_on_history(tonight(history), history, 0.05, 14)
    assert gate.ruling is Ruling.NOISY
    assert "versions.vllm" in gate.notes[0]
    assert gate_on_history(tonight(history), history, 0.05, 14, allow=["versions"]).ruling is Ruling.PASSED


def test_the_first_night() -> None:
    """Without a night before it, tonight cannot be told."""
    first = nights([1.0])
    assert gate_on_history(first, first, 0.05, 14).ruling is Ruling.NOISY


def test_a_night_without_success() -> None:
    """If not one request succeeds where nights before had some, that is a regression."""
    history = nights([1.0] * 8)
    broken = run_of(1.0, failed=300, run_id="zz", utc="20261130T020000Z")
    lines = history_lines(broken, summarise(broken, 20))
    assert gate_on_history(lines, history, 0.05, 14).ruling is Ruling.REGRESSED


def test_an_arm_that_went_missing() -> None:
    """An arm that nights before had is missed."""
    both = fake_run(
        [FakePass(arm, [float(ms) for ms in TRUTH]) for arm in ("recompute", "host")],
        **META | {"run_id": "aa", "utc": "20261001T020000Z"},
    )
    gate = gate_on_history(nights([1.0]), history_lines(both, summarise(both, 20)), 0.05, 14)
    assert ruling(gate, "missing") is Ruling.NOISY
