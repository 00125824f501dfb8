"""One figure night after night, on made-up histories whose truth is known."""

import numpy as np
import pytest

from harness.analysis.nights import judge_nights
from harness.analysis.ruling import Ruling


def level(nights: int, noise: float, seed: int, value: float = 200.0) -> list[float]:
    """Nights of one level."""
    return [float(x) for x in value * np.random.default_rng(seed).lognormal(0, noise, size=nights)]


def share(rulings: list[Ruling], wanted: Ruling) -> float:
    """How many of the rulings are the one wanted."""
    return rulings.count(wanted) / len(rulings)


def test_stable() -> None:
    """Fourteen nights within 1 % of each other: no regression, and never a false alarm in 200 histories."""
    rulings = [judge_nights(level(15, 0.01, seed), 0.05).ruling for seed in range(200)]
    assert share(rulings, Ruling.PASSED) > 0.9
    assert Ruling.REGRESSED not in rulings


def test_a_step_tonight() -> None:
    """Tonight a fifth slower than the nights before is a regression, tonight already."""
    rulings = []
    for seed in range(50):
        values = level(15, 0.01, seed)
        rulings.append(judge_nights([*values[:-1], values[-1] * 1.2], 0.05).ruling)
    assert share(rulings, Ruling.REGRESSED) > 0.95


@pytest.mark.parametrize("ago", [1, 3, 8])
def test_a_step_stays_a_regression(ago: int) -> None:
    """A step some nights ago is one until it has left the nights looked at, and is dated to its night."""
    values = np.array(level(15, 0.01, 5))
    values[-ago:] *= 1.2
    judged = judge_nights(list(values), 0.05)
    assert (judged.ruling, judged.since) == (Ruling.REGRESSED, 15 - ago)


@pytest.mark.parametrize("ago", [2, 7])
def test_an_improvement_is_no_regression(ago: int) -> None:
    """A level that fell is the level from then on; that there are few nights of it yet is no alarm."""
    values = np.array(level(15, 0.01, 6))
    values[-ago:] /= 1.3
    assert judge_nights(list(values), 0.05).ruling is Ruling.PASSED
    back = values.copy()
    back[-1] *= 1.3  # back to what it was before: a regression from the better level, once that is known
    if ago == 7:
        assert judge_nights(list(back), 0.05).ruling is Ruling.REGRESSED


def test_drift() -> None:
    """One percent a night adds up: a regression, though no night differs from the one before it."""
    rulings = []
    for seed in range(50):
        values = np.array(level(15, 0.005, seed)) * 1.01 ** np.arange(15)
        judged = judge_nights(list(values), 0.05)
        rulings.append(judged.ruling)
    assert share(rulings, Ruling.REGRESSED) > 0.95


def test_noise() -> None:
    """Nights that differ by 15 % cannot show 5 %: it says so, rather than guess either way."""
    rulings = [judge_nights(level(15, 0.15, seed), 0.05).ruling for seed in range(200)]
    assert share(rulings, Ruling.NOISY) > 0.75
    assert share(rulings, Ruling.REGRESSED) < 0.03


@pytest.mark.parametrize("nights", [1, 2, 5])
def test_few_nights(nights: int) -> None:
    """Fewer than five nights before tonight make no level to hold it against."""
    judged = judge_nights(level(nights, 0.01, 7), 0.05)
    assert judged.ruling is Ruling.NOISY
    assert f"{nights - 1} night(s)" in judged.text


def test_equal_nights() -> None:
    """A figure that never varies has no spread: the same again passes, anything beyond the limit does not."""
    assert judge_nights([7.0] * 10, 0.05).ruling is Ruling.PASSED
    assert judge_nights([*[7.0] * 9, 8.0], 0.05).ruling is Ruling.REGRESSED
