"""A made trace: long shared prefixes, short suffixes of each request's own, a fixed count at an exactly fixed rate.

Every draw comes from sha256(seed, purpose, index), so that a spec gives the same bytes on every machine and with every
version of Python; times are rounded to whole ms, which hides the last bit of a platform's `log` and `pow`.
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Literal

from harness.errors import TraceError
from harness.trace.request import Trace, TraceRequest
from harness.trace.sidecar import Sidecar

Arrivals = Literal["poisson-conditioned", "deterministic", "gamma"]


@dataclass(frozen=True, slots=True)
class MakeSpec:
    """What to make. The defaults are the trace we ship.

    `requests` arrive at exactly `rate` a second, counted as (n - 1) / (last arrival - first arrival) with whole ms.
    Each prompt is one of `prefixes` of `prefix_tokens`, read in cycles that are shuffled anew each time, and a
    suffix of its own of `suffix_tokens` (least, most). Raises TraceError for sizes that make no such trace.
    """

    requests: int = 683
    rate: float = 1.21
    prefixes: int = 68
    prefix_tokens: int = 16_384
    suffix_tokens: tuple[int, int] = (32, 240)
    output_tokens: tuple[int, int] = (32, 160)
    block_size: int = 512
    arrivals: Arrivals = "poisson-conditioned"
    gamma_cv: float = 2.5
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises TraceError for the first size that is wrong, with what it must be."""
        rules = (
            (self.requests >= 2, "requests", "at least 2"),
            (math.isfinite(self.rate) and self.rate > 0, "rate", "above zero"),
            (self.prefixes >= 1, "prefixes", "at least 1"),
            (self.block_size >= 1, "block_size", "at least 1"),
            (
                self.prefix_tokens >= self.block_size >= 1 and self.prefix_tokens % self.block_size == 0,
                "prefix_tokens",
                "a multiple of block_size",
            ),
            (1 <= self.suffix_tokens[0] <= self.suffix_tokens[1] <= self.block_size, "suffix_tokens", "within a block"),
            (1 <= self.output_tokens[0] <= self.output_tokens[1], "output_tokens", "least and most, from 1"),
            (math.isfinite(self.gamma_cv) and self.gamma_cv > 1, "gamma_cv", "above 1"),
        )
        for holds, name, expected in rules:
            if not holds:
                raise TraceError(f"{name} is {getattr(self, name)}", where="trace make", remedy=f"must be {expected}")


SHIPPED = {
    "trace-16k-683": MakeSpec(),
    "trace-16k-683-deterministic": MakeSpec(arrivals="deterministic"),
    "trace-16k-683-gamma": MakeSpec(arrivals="gamma"),
}


def make_trace(spec: MakeSpec) -> Trace:
    """The trace of a spec: the same on every machine. Specs that differ in `arrivals` only have the same rows."""
    prefixes = _cycles(spec)
    names: dict[tuple[str, int, int], int] = {}
    requests = []
    for row, arrival_ms in enumerate(_ARRIVALS[spec.arrivals](spec)):
        prefix = next(prefixes)
        keys = [("prefix", prefix, i) for i in range(spec.prefix_tokens // spec.block_size)] + [("suffix", row, 0)]
        requests.append(
            TraceRequest(
                row=row,
                session="",
                turn=0,
                arrival_us=arrival_ms * 1000,
                input_tokens=spec.prefix_tokens + _whole(spec, "suffix", row, *spec.suffix_tokens),
                output_tokens=_whole(spec, "output", row, *spec.output_tokens),
                blocks=tuple(names.setdefault(key, len(names)) for key in keys),
            )
        )
    return Trace(tuple(requests), spec.block_size, f"made with seed {spec.seed}", "reconstructed")


def sidecar_of(spec: MakeSpec) -> Sidecar:
    """The sidecar of a made trace; `write_trace` fills in its rows and sha256."""
    arrivals: dict[str, object] = {
        "process": spec.arrivals,
        "rate": spec.rate,
        "rate_is": "(rows - 1) / (last timestamp - first timestamp)",
        "span_ms": _span_ms(spec),
        "seed": spec.seed,
    }
    if spec.arrivals == "gamma":
        arrivals["cv"] = spec.gamma_cv
    return Sidecar(
        block_size=spec.block_size,
        arrivals=arrivals,
        source="kvreplay trace make",
        licence="Apache-2.0",
        provenance="reconstructed",
        notes=(
            "Made from summary statistics with a seeded generator; not a recording. Arrivals are conditioned on the "
            "number of rows and on the span: the first row is at 0 and the last at span_ms, so that the rate is exact "
            f"and a rebased first row shifts nothing. {spec.prefixes} prefixes of {spec.prefix_tokens} tokens in "
            "cycles, each cycle in a new order; each suffix occurs once."
        ),
    )


def _cycles(spec: MakeSpec) -> Iterator[int]:
    """Prefixes without end: all of them in a random order (Fisher-Yates), then all again in another."""
    for cycle in count():
        order = list(range(spec.prefixes))
        for i in range(spec.prefixes - 1, 0, -1):
            j = _whole(spec, f"cycle {cycle}", i, 0, i)
            order[i], order[j] = order[j], order[i]
        yield from order


def _poisson(spec: MakeSpec) -> list[int]:
    """A Poisson process with a first and a last arrival given: those in between are sorted uniforms."""
    span = _span_ms(spec)
    inner = sorted(round(_uniform(spec, "arrival", i) * span) for i in range(spec.requests - 2))
    return [0, *inner, span]


def _deterministic(spec: MakeSpec) -> list[int]:
    """Equal gaps, each arrival rounded to its nearest ms."""
    gaps = spec.requests - 1
    return [(2 * i * _span_ms(spec) + gaps) // (2 * gaps) for i in range(spec.requests)]


def _gamma(spec: MakeSpec) -> list[int]:
    """Gamma gaps of shape 1 / cv**2, scaled to the span."""
    gaps = [_gamma_variate(spec, i) for i in range(spec.requests - 1)]
    scale = _span_ms(spec) / math.fsum(gaps)
    return [0, *(round(time * scale) for time in accumulate(gaps))]


_ARRIVALS: dict[str, Callable[[MakeSpec], list[int]]] = {
    "poisson-conditioned": _poisson,
    "deterministic": _deterministic,
    "gamma": _gamma,
}


def _gamma_variate(spec: MakeSpec, index: int) -> float:
    """A gamma variate of shape below 1: Beta(shape, 1 - shape) times an exponential (Joehnk 1964)."""
    shape = spec.gamma_cv**-2.0
    for attempt in count():
        draw = f"gap {index} {attempt}"
        x: float = (1 - _uniform(spec, draw, 0)) ** (1 / shape)
        y: float = (1 - _uniform(spec, draw, 1)) ** (1 / (1 - shape))
        if x + y <= 1:
            return -math.log(1 - _uniform(spec, draw, 2)) * (x / (x + y))
    raise AssertionError("unreachable: each attempt succeeds with a probability above 1/2")


def _span_ms(spec: MakeSpec) -> int:
    """The span at which the rate is the wanted one, to the ms."""
    return round((spec.requests - 1) / spec.rate * 1000)


def _whole(spec: MakeSpec, purpose: str, index: int, least: int, most: int) -> int:
    """A whole number from `least` to `most`, each as likely as the others."""
    return least + int(_uniform(spec, purpose, index) * (most - least + 1))


def _uniform(spec: MakeSpec, purpose: str, index: int) -> float:
    """A uniform in [0, 1) with 53 random bits, fixed by seed, purpose and index."""
    digest = hashlib.sha256(f"{spec.seed}|{purpose}|{index}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
