"""Intervals against truths that are known: how often they hold them, and how often a comparison cries wolf."""

import numpy as np
import pytest

from harness.analysis.compare import JUDGED_PERCENT, Change, change, wilcoxon_p
from harness.analysis.resample import latency
from tests.fakes.known_truths import Scenario, latencies, of_one_run, of_pairs, of_repeats

SIMULATIONS = 800
CALIBRATED = [
    of_one_run("p50", 200, 0.0, 300),
    of_one_run("p50", 200, 0.5, 300),
    of_one_run("p50", 200, 0.8, 300),
    of_pairs("difference", 200, 0.0, 300),
    of_pairs("difference", 200, 0.5, 300),
    of_repeats("p50", 3, 100, 0.05),
    of_repeats("p50", 5, 100, 0.0),
]


@pytest.mark.parametrize("scenario", CALIBRATED, ids=lambda scenario: scenario.name)
def test_medians_and_paired_differences_are_covered(scenario: Scenario) -> None:
    """A 95 % interval of a median or of a paired difference holds the truth in 93 to 97 % of runs."""
    assert 0.93 <= scenario.coverage(SIMULATIONS) <= 0.97


def test_ratios_of_medians_are_covered() -> None:
    """Those of a ratio of medians hold it at least as often: medians of paired rows move together in steps."""
    assert of_pairs("p50 ratio", 200, 0.0, 300).coverage(SIMULATIONS) >= 0.93


def test_p99_intervals_are_approximate() -> None:
    """Those of p99 fall short, by no more than docs/method.md says."""
    assert 0.80 <= of_one_run("p99", 683, 0.0, 300).coverage(400) < 0.97


def aa(random: np.random.Generator, truth: np.ndarray, shift: float = 1.0) -> tuple[Change, Change]:
    """What 200 rows of one arm, drawn twice, show of each other."""
    a, b = (truth * random.lognormal(0, 0.1, size=len(truth)) for _ in range(2))
    sides = [latency([side], 300) for side in (a, b * shift)]
    moved = latency([b * shift - a], 300)
    assert sides[0] is not None
    assert sides[1] is not None
    assert moved is not None
    p_value = wilcoxon_p(b * shift - a)
    p50 = change(moved.estimate("p50", JUDGED_PERCENT, positive=False), p_value)
    return p50, change(sides[1].difference(sides[0], "p99", JUDGED_PERCENT))


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_an_arm_beside_itself_differs_in_nothing(correlation: float) -> None:
    """In at least 95 % of 200 resamplings neither p50 nor p99 is shown to differ."""
    random = np.random.default_rng(11)
    quiet = sum(
        aa(random, latencies(random, 200, correlation)) == (Change.NOT_SHOWN, Change.NOT_SHOWN) for _ in range(200)
    )
    assert quiet >= 190


def test_a_tenth_is_found() -> None:
    """A shift of 10 % with 200 pairs is found in at least 95 % of 200 resamplings."""
    random = np.random.default_rng(12)
    found = sum(aa(random, latencies(random, 200), 1.1)[0] is Change.HIGHER for _ in range(200))
    assert found >= 190
