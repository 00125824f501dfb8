"""When made requests arrive: a process conditioned on how many come and in which time, or the times of another trace.

Times are whole milliseconds, which hides the last bit of a platform's `log` and `pow`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Literal

from harness.errors import TraceError
from harness.trace.draws import uniform

Process = Literal["poisson-conditioned", "deterministic", "gamma", "recorded"]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How times are made. The defaults are those of the trace we ship.

    `rate` is exact: (n - 1) / (last - first), the first request at 0, to the ms. `poisson-conditioned` is a Poisson
    process given its first and last arrival: those in between are sorted uniforms. `gamma` has gamma gaps with
    coefficient of variation `cv`, scaled to the span. `recorded` takes the first times of `recorded_us` (microseconds,
    ascending, from 0), which came from `recorded_from`; `rate` and `cv` then mean nothing. Raises TraceError for
    values that make no such process.
    """

    process: Process = "poisson-conditioned"
    rate: float = 1.21
    cv: float = 2.5
    seed: int = 0
    recorded_us: tuple[int, ...] = ()
    recorded_from: str = ""

    def __post_init__(self) -> None:
        """Raises TraceError for the first value that is wrong, with what it must be."""
        rules = (
            (self.process in _PROCESSES, "arrivals", f"one of {', '.join(_PROCESSES)}"),
            (math.isfinite(self.rate) and self.rate > 0, "rate", "above zero"),
            (math.isfinite(self.cv) and self.cv > 0, "cv", "above zero"),
        )
        for holds, name, expected in rules:
            if not holds:
                value = self.process if name == "arrivals" else getattr(self, name)
                raise TraceError(f"{name} is {value}", where="trace make", remedy=f"must be {expected}")

    def times_us(self, requests: int) -> list[int]:
        """The arrivals of `requests` (2 or more), ascending, from 0. Raises TraceError if fewer were recorded."""
        return _PROCESSES[self.process](self, requests)

    def stated(self, requests: int) -> dict[str, object]:
        """What a sidecar says of them."""
        if self.process == "recorded":
            return {"process": self.process, "from": self.recorded_from}
        facts: dict[str, object] = {
            "process": self.process,
            "rate": self.rate,
            "rate_is": "(rows - 1) / (last timestamp - first timestamp)",
            "span_ms": self._span_ms(requests),
            "seed": self.seed,
        }
        return {**facts, "cv": self.cv} if self.process == "gamma" else facts

    def _span_ms(self, requests: int) -> int:
        """The span at which the rate is the wanted one, to the ms."""
        return round((requests - 1) / self.rate * 1000)


def _poisson(arrivals: Arrivals, requests: int) -> list[int]:
    span = arrivals._span_ms(requests)
    inner = sorted(round(uniform(arrivals.seed, "arrival", i) * span) for i in range(requests - 2))
    return [ms * 1000 for ms in (0, *inner, span)]


def _deterministic(arrivals: Arrivals, requests: int) -> list[int]:
    """Equal gaps, each arrival rounded to its nearest ms."""
    gaps, span = requests - 1, arrivals._span_ms(requests)
    return [(2 * i * span + gaps) // (2 * gaps) * 1000 for i in range(requests)]


def _gamma(arrivals: Arrivals, requests: int) -> list[int]:
    gaps = [_gamma_variate(arrivals, i) for i in range(requests - 1)]
    scale = arrivals._span_ms(requests) / math.fsum(gaps)
    return [0, *(round(time * scale) * 1000 for time in accumulate(gaps))]


def _recorded(arrivals: Arrivals, requests: int) -> list[int]:
    if len(arrivals.recorded_us) < requests:
        raise TraceError(
            f"{requests} requests, but only {len(arrivals.recorded_us)} recorded times",
            where=arrivals.recorded_from,
            remedy="make fewer requests, or take the times of a longer trace",
        )
    return [us - arrivals.recorded_us[0] for us in arrivals.recorded_us[:requests]]


_PROCESSES: dict[str, Callable[[Arrivals, int], list[int]]] = {
    "poisson-conditioned": _poisson,
    "deterministic": _deterministic,
    "gamma": _gamma,
    "recorded": _recorded,
}


def _gamma_variate(arrivals: Arrivals, index: int) -> float:
    """A gamma variate of shape 1 / cv**2: one exponential for each whole unit of shape, and one of shape below 1."""
    units, part = divmod(arrivals.cv**-2.0, 1.0)
    draws = (1 - uniform(arrivals.seed, f"gap {index} unit", i) for i in range(int(units)))
    return math.fsum((*(-math.log(draw) for draw in draws), _below_one(arrivals, index, part) if part else 0.0))


def _below_one(arrivals: Arrivals, index: int, shape: float) -> float:
    """A gamma variate of shape below 1: Beta(shape, 1 - shape) times an exponential (Joehnk 1964)."""
    for attempt in count():
        draw = f"gap {index} {attempt}"
        x: float = (1 - uniform(arrivals.seed, draw, 0)) ** (1 / shape)
        y: float = (1 - uniform(arrivals.seed, draw, 1)) ** (1 / (1 - shape))
        if 0 < x + y <= 1:
            return -math.log(1 - uniform(arrivals.seed, draw, 2)) * (x / (x + y))
    raise AssertionError("unreachable: each attempt succeeds with a probability of pi/4 or more")
