"""Synthetic runs whose true median and p99 are known, and how often an interval covers them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import signal, stats

from harness.analysis.finding import Estimate
from harness.analysis.resample import latency

FloatArray = npt.NDArray[np.float64]
Random = np.random.Generator
_SCALE_MS, _SIGMA = 200.0, 0.5


def quantile(share: float) -> float:
    """The true quantile of every latency drawn here: lognormal, median 200 ms, sigma 0.5."""
    return _SCALE_MS * math.exp(_SIGMA * float(stats.norm.ppf(share)))


def latencies(random: Random, n: int, correlation: float = 0.0) -> FloatArray:
    """`n` latencies in order; neighbours correlate as an autoregressive process of that coefficient."""
    steps = random.standard_normal(n + 200) * math.sqrt(1 - correlation**2)
    state = signal.lfilter([1.0], [1.0, -correlation], steps)[200:]
    return np.asarray(_SCALE_MS * np.exp(_SIGMA * state))


def runs(random: Random, repeats: int, n: int, between: float) -> list[FloatArray]:
    """Repeats whose levels differ by a lognormal factor of that sigma, median 1."""
    return [latencies(random, n) * math.exp(between * random.standard_normal()) for _ in range(repeats)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A kind of data, the truth, and the interval that must cover it."""

    name: str
    truth: float
    estimate: Callable[[Random], Estimate]

    def coverage(self, simulations: int, seed: int = 0) -> float:
        """The share of `simulations` in which the interval holds the truth."""
        random, held = np.random.default_rng(seed), 0
        for _ in range(simulations):
            found = self.estimate(random)
            held += found.low is not None and found.high is not None and found.low <= self.truth <= found.high
        return held / simulations


def of_one_run(statistic: str, n: int, correlation: float, resamples: int) -> Scenario:
    """A statistic of one repeat of `n` requests."""

    def estimate(random: Random) -> Estimate:
        measured = latency([latencies(random, n, correlation)], resamples)
        assert measured is not None
        return measured.estimate(statistic)

    kind = f"correlated {correlation:g}" if correlation else "independent"
    truth = quantile({"p50": 0.5, "p99": 0.99}[statistic])
    return Scenario(f"{statistic} of {n:,} requests, {kind}", truth, estimate)


def of_repeats(statistic: str, repeats: int, n: int, between: float) -> Scenario:
    """The median of several repeats whose levels differ."""

    def estimate(random: Random) -> Estimate:
        measured = latency(runs(random, repeats, n, between))
        assert measured is not None
        return measured.estimate(statistic)

    return Scenario(f"p50 of {repeats} repeats of {n:,}, levels differ by {between:.0%}", quantile(0.5), estimate)


def of_pairs(what: str, n: int, correlation: float, resamples: int, shift: float = 1.1) -> Scenario:
    """`n` pairs, B `shift` times as slow as A and each with noise of its own: of their difference, or of the ratio."""

    def pairs(random: Random, n: int) -> tuple[FloatArray, FloatArray]:
        base = latencies(random, n, correlation)
        a, b = (base * random.lognormal(0, 0.1, size=n) for _ in range(2))
        return a, shift * b

    a, b = pairs(np.random.default_rng(99), 2_000_000)
    truths = {
        "difference": float(np.median(b - a)),
        "p50 ratio": shift,
        "p99 ratio": shift,
    }

    def estimate(random: Random) -> Estimate:
        one, other = pairs(random, n)
        if what == "difference":
            moved = latency([other - one], resamples)
            assert moved is not None
            return moved.estimate("p50", positive=False)
        measured = [latency([side], resamples) for side in (one, other)]
        assert measured[0] is not None
        assert measured[1] is not None
        return measured[1].ratio(measured[0], what.partition(" ")[0])

    name = "median of the differences" if what == "difference" else what
    kind = f"correlated {correlation:g}" if correlation else "independent"
    return Scenario(f"{name} of {n:,} pairs, {kind}", truths[what], estimate)
