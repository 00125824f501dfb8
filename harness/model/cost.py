"""When does loading KV from a remote tier beat computing it again?

The model of arXiv 2610.21500: a hit of n tokens costs T0 + n s / B seconds, recomputing them n / R. Whatever T0 is, the
hit can only win where B is above B* = s R, in which n cancels. Attention is quadratic, so R falls with n: where a
measurement shows it, recomputing costs c + n / R + q n^2, of which the paper's is the case c = q = 0. Where chunks lie
on several instances by their hash, a hit waits for the fullest of them: T0 + n s / B x slowdown (model.placement).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.errors import ConfigError
from harness.model.placement import EVEN, Placement


class Reach(StrEnum):
    """For which prompts a hit is faster: all, none, or those over a length."""

    ALWAYS = "always"
    NEVER = "never"
    OVER = "over"


_ROUNDING = 1e-12
_MOST = 1 << 16  # so many instances, or times a length: further on nothing is looked for


@dataclass(frozen=True, slots=True)
class BreakEven:
    """n*: `tokens` is the length above which every hit is faster; 0 if all are, infinite if none is."""

    reach: Reach
    tokens: float


@dataclass(frozen=True, slots=True)
class CostModel:
    """R (prompt tokens prefilled a second), s (KV bytes a token), T0 (s, fixed cost of a hit) and B (bytes a second).

    `hit_fixed_s` is None where T0 was not measured; what needs it then raises ConfigError. `bandwidth_bytes_per_s` is
    what the instances of the remote tier deliver together, `math.inf` for the best case; `placement` is how a prompt
    lies on them, and so how much of it the prompt gets. `prefill_fixed_s` (c) and `prefill_s_per_token2` (q) are above
    zero only where they were measured; R is then that of short prompts. Raises ConfigError on a value that no machine
    has: R, s or B not above zero, a time below zero, NaN.
    """

    prefill_tokens_per_s: float
    kv_bytes_per_token: float
    hit_fixed_s: float | None
    bandwidth_bytes_per_s: float
    prefill_fixed_s: float = 0.0
    prefill_s_per_token2: float = 0.0
    placement: Placement = EVEN

    def __post_init__(self) -> None:
        for name in ("prefill_tokens_per_s", "kv_bytes_per_token", "bandwidth_bytes_per_s"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "above zero")
        _require(math.isfinite(self.prefill_tokens_per_s * self.kv_bytes_per_token), "R s", "infinite", "finite")
        for name in ("hit_fixed_s", "prefill_fixed_s", "prefill_s_per_token2"):
            value = getattr(self, name)
            _require(value is None or 0 <= value < math.inf, name, value, "zero or above")

    @property
    def bstar_bytes_per_s(self) -> float:
        """B* = s R: at a lower bandwidth no hit, however long, is faster than recomputing it (where c = q = 0)."""
        return self.kv_bytes_per_token * self.prefill_tokens_per_s

    def bstar_at(self, tokens: float) -> float:
        """B* at a prompt length: s n / (time to recompute n tokens), the bandwidth at which T0 = 0 would break even."""
        return self.kv_bytes_per_token * tokens / self.recompute_s(tokens)

    def recompute_s(self, tokens: float) -> float:
        """Seconds to prefill `tokens` tokens: c + n / R + q n^2."""
        return self.prefill_fixed_s + tokens / self.prefill_tokens_per_s + self.prefill_s_per_token2 * tokens**2

    def work_s(self, tokens: float) -> float:
        """Seconds of all instances together that the KV of `tokens` tokens takes: n s / B."""
        return tokens * self.kv_bytes_per_token / self.bandwidth_bytes_per_s

    def transfer_s(self, tokens: float) -> float:
        """Seconds in which the KV of `tokens` tokens arrives: n s / B x slowdown, on the mean over placements."""
        return self.work_s(tokens) * self.placement.slowdown(tokens)

    def hit_s(self, tokens: float, slowdown: float | None = None) -> float:
        """Seconds to serve a hit of `tokens` tokens: T0 + n s / B x slowdown; None: that of the placement, on the mean.

        Raises ConfigError if T0 was not measured.
        """
        transfer_s = self.transfer_s(tokens) if slowdown is None else self.work_s(tokens) * slowdown
        return self._t0() + transfer_s

    @property
    def break_even(self) -> BreakEven:
        """n*, the length above which every hit is faster: R T0 / (1 - B*/B), never if B is not above B*.

        With c and q it is the largest root of q n^2 + (1/R - s/B) n + c - T0 = 0; by hash, the longest whole number of
        chunks that does not win. Raises ConfigError if T0 was not measured and the answer depends on it.
        """
        even = self._even_break_even()
        if self.placement.is_even or even.reach is Reach.NEVER:
            return even
        chunk = float(self.placement.chunk_tokens or 1)
        chunks = fewest(
            lambda count: self.hit_s(count * chunk) < self.recompute_s(count * chunk),
            max(1, math.ceil(even.tokens / chunk)),
        )
        if math.isinf(chunks):
            return BreakEven(Reach.NEVER, math.inf)
        return BreakEven(Reach.OVER, (chunks - 1) * chunk) if chunks > 1 else BreakEven(Reach.ALWAYS, 0.0)

    def _even_break_even(self) -> BreakEven:
        square = self.prefill_s_per_token2
        slope = 1 / self.prefill_tokens_per_s - self.kv_bytes_per_token / self.bandwidth_bytes_per_s
        if abs(slope) * self.prefill_tokens_per_s < _ROUNDING:
            slope = 0.0  # B is B*
        if square == 0 and slope <= 0 and self.prefill_fixed_s == 0:
            return BreakEven(Reach.NEVER, math.inf)
        ahead = self.prefill_fixed_s - self._t0()
        if square == 0 and slope <= 0:
            return BreakEven(Reach.NEVER, math.inf)
        if square == 0:
            tokens = -ahead / slope
        else:
            root = slope**2 - 4 * square * ahead
            tokens = -1.0 if root < 0 else _largest_root(square, slope, ahead, root)
        return BreakEven(Reach.OVER, tokens) if tokens > 0 else BreakEven(Reach.ALWAYS, 0.0)

    def bandwidth_needed(self, tokens: float) -> float:
        """Bytes a second at which a hit of `tokens` tokens takes as long as recomputing them; infinite: never."""
        left_s = self.recompute_s(tokens) - self._t0()
        return tokens * self.kv_bytes_per_token * self.placement.slowdown(tokens) / left_s if left_s > 0 else math.inf

    def rho(self, requests_per_s: float, hit_tokens: float) -> float:
        """Load of the remote tier, lambda n s / B: at 1 and above its queue grows for as long as requests come."""
        return requests_per_s * self.work_s(hit_tokens)

    def recompute_load(self, requests_per_s: float, tokens: float) -> float:
        """Load of the engine if it recomputes every prompt: lambda times the time to recompute one."""
        return requests_per_s * self.recompute_s(tokens)

    def rate_for_rho(self, rho: float, hit_tokens: float) -> float:
        """Requests a second at which the remote tier has load `rho`: rho B / (n s). Inverse of `rho`."""
        work_s = self.work_s(hit_tokens)
        return rho / work_s if work_s > 0 else math.inf

    def instances(self, count: float) -> "CostModel":
        """The same with `count` times as many equal instances, placed in the same way."""
        placement = replace(self.placement, instances=count * self.placement.instances)
        return replace(self, bandwidth_bytes_per_s=count * self.bandwidth_bytes_per_s, placement=placement)

    def unlimited(self) -> "CostModel":
        """The same with infinite bandwidth, wherever chunks lie: T0 is all that a hit takes."""
        return replace(self, bandwidth_bytes_per_s=math.inf, placement=EVEN)

    def shards_needed(self, requests_per_s: float, hit_tokens: float, below_rho: float) -> int:
        """The fewest equal instances, each delivering B and holding an equal share, whose load is below `below_rho`.

        Raises ConfigError if `below_rho` is not above zero.
        """
        _require(below_rho > 0, "below_rho", below_rho, "above zero")
        return math.floor(self.rho(requests_per_s, hit_tokens) / below_rho) + 1

    def shards_for_median(self, tokens: float) -> float:
        """The fewest equal instances with which a hit of `tokens` tokens beats recomputing; infinite: never."""
        recompute_s = self.recompute_s(tokens)
        if self.placement.chunk_tokens is not None:
            return fewest(lambda count: self.instances(count).hit_s(tokens) < recompute_s)
        shards = self.bandwidth_needed(tokens) / self.bandwidth_bytes_per_s
        return math.floor(shards) + 1 if math.isfinite(shards) else math.inf

    def _t0(self) -> float:
        if self.hit_fixed_s is None:
            raise ConfigError("T0, the fixed cost of a hit, is not known", where="hit_fixed_s", remedy="measure it")
        return self.hit_fixed_s


def fewest(meets: Callable[[int], bool], least: int = 1) -> float:
    """The smallest number, `least` or above, that meets what larger ones meet too; infinite: none in sight does."""
    low, high = least - 1, least
    while not meets(high):
        low, high = high, 2 * high
        if high > _MOST * least:
            return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def _largest_root(square: float, slope: float, constant: float, discriminant: float) -> float:
    """Of square n^2 + slope n + constant = 0, without cancellation where the slope dominates."""
    root = math.sqrt(discriminant)
    return (-slope + root) / (2 * square) if slope <= 0 else -2 * constant / (slope + root)


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {value}", where="cost model", remedy=f"it is {expected}")
