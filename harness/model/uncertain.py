"""A cost model whose inputs are not known exactly: what follows from them has an interval."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.model.cost import CostModel
from harness.model.estimate import Estimate
from harness.model.fit import DRAWS, FloatArray, Line
from harness.model.placement import EVEN, Placement

_Z95 = 1.959964
_INTERVAL = (0.025, 0.975)
_AS_GIVEN = "from the inputs as given"
_DRAWN = "95 %, from draws of the inputs"


@dataclass(frozen=True, slots=True)
class UncertainModel:
    """`point` is the best guess; `draws` are models as likely as the data allow, none if the inputs are taken as exact.

    Terms fitted together were drawn together, so that figures of several inputs have the right width.
    """

    point: CostModel
    draws: tuple[CostModel, ...] = ()

    def estimate(self, figure: Callable[[CostModel], float]) -> Estimate:
        """The figure at the point, with its 95 % interval over the draws; infinite ends mean never, or without end."""
        value = figure(self.point)
        if not self.draws:
            return Estimate(value, value, value, 1, _AS_GIVEN)
        low, high = interval([figure(draw) for draw in self.draws])
        return Estimate(value, min(low, value), max(high, value), len(self.draws), _DRAWN)

    def instances(self, count: float) -> "UncertainModel":
        """The same with `count` equal instances instead of one."""
        return UncertainModel(self.point.instances(count), tuple(draw.instances(count) for draw in self.draws))

    def holding(self, name: str) -> "UncertainModel":
        """The same with the input `name` (a field of CostModel) known exactly: what the others leave open."""
        value = getattr(self.point, name)
        return UncertainModel(self.point, tuple(replace(draw, **{name: value}) for draw in self.draws))


def assumed(
    prefill_tokens_per_s: Estimate,
    kv_bytes_per_token: Estimate,
    hit_fixed_s: Estimate,
    bandwidth_bytes_per_s: Estimate,
    placement: Placement = EVEN,
) -> UncertainModel:
    """A model of inputs that somebody gives, each with or without an interval; those without are exact.

    An interval is that of a normal logarithm, each side with a width of its own; inputs are independent.
    """
    inputs = (prefill_tokens_per_s, kv_bytes_per_token, hit_fixed_s, bandwidth_bytes_per_s)
    rate, size, fixed_s, delivered = (one.value for one in inputs)
    point = CostModel(rate, size, fixed_s, delivered, placement=placement)
    if all(one.low is None or one.low == one.high for one in inputs):
        return UncertainModel(point)
    random = np.random.default_rng(0)
    columns = [_spread(one, random) for one in inputs]
    draws = (CostModel(r, s, t0, b, placement=placement) for r, s, t0, b in zip(*columns, strict=True))
    return UncertainModel(point, tuple(draws))


def fitted(prefill: Line, hits: Line, kv_bytes_per_token: float, placement: Placement = EVEN) -> UncertainModel:
    """A model of measured lines: R, c, q from cold prompts, T0 and B from hits; draws of the two are independent."""

    def model(cold: FloatArray, hit: FloatArray) -> CostModel:
        fixed_s, slope_s = float(hit[0]), float(hit[1])
        delivered = kv_bytes_per_token / slope_s if slope_s > 0 else math.inf
        fixed = float(cold[0]), float(cold[2])
        return CostModel(1 / float(cold[1]), kv_bytes_per_token, fixed_s, delivered, *fixed, placement)

    draws = tuple(model(cold, hit) for cold, hit in zip(prefill.draws, hits.draws, strict=False))
    return UncertainModel(model(prefill.terms, hits.terms), draws)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile, each one of the values, so that infinite ones are allowed."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[math.floor(_INTERVAL[0] * last)], ordered[math.ceil(_INTERVAL[1] * last)]


def _spread(one: Estimate, random: np.random.Generator) -> list[float]:
    normal = random.standard_normal(DRAWS)
    if one.low is None or one.high is None or one.value == 0:
        return [one.value] * DRAWS
    below, above = math.log(one.value / one.low) / _Z95, math.log(one.high / one.value) / _Z95
    return [one.value * math.exp(z * (below if z < 0 else above)) for z in normal]
