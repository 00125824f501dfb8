"""When does loading KV from a remote tier beat computing it again?

The model of arXiv 2610.21500: a hit of n tokens costs T0 + n s / B seconds, recomputing them n / R. Whatever T0 is, the
hit can only win where B is above B* = s R, in which n cancels.
"""

import math
from dataclasses import dataclass

from harness.errors import ConfigError


@dataclass(frozen=True, slots=True)
class CostModel:
    """R (prompt tokens prefilled a second), s (KV bytes a token), T0 (s, fixed cost of a hit) and B (bytes a second).

    `hit_fixed_s` is None where T0 was not measured; what needs it then raises ConfigError. `bandwidth_bytes_per_s` is
    what the whole remote tier delivers to one prompt, `math.inf` for the best case. Raises ConfigError on a value that
    no machine has: not above zero, or (T0) below zero.
    """

    prefill_tokens_per_s: float
    kv_bytes_per_token: float
    hit_fixed_s: float | None
    bandwidth_bytes_per_s: float

    def __post_init__(self) -> None:
        for name in ("prefill_tokens_per_s", "kv_bytes_per_token", "bandwidth_bytes_per_s"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "above zero")
        _require(math.isfinite(self.prefill_tokens_per_s * self.kv_bytes_per_token), "R s", "infinite", "finite")
        _require(self.hit_fixed_s is None or self.hit_fixed_s >= 0, "hit_fixed_s", self.hit_fixed_s, "zero or above")

    @property
    def bstar_bytes_per_s(self) -> float:
        """B* = s R: at a lower bandwidth no hit, however long, is faster than recomputing it."""
        return self.kv_bytes_per_token * self.prefill_tokens_per_s

    def recompute_s(self, tokens: float) -> float:
        """Seconds to prefill `tokens` tokens: n / R."""
        return tokens / self.prefill_tokens_per_s

    def transfer_s(self, tokens: float) -> float:
        """Seconds in which the KV of `tokens` tokens arrives: n s / B."""
        return tokens * self.kv_bytes_per_token / self.bandwidth_bytes_per_s

    def hit_s(self, tokens: float) -> float:
        """Seconds to serve a hit of `tokens` tokens: T0 + n s / B. Raises ConfigError if T0 was not measured."""
        return self._t0() + self.transfer_s(tokens)

    @property
    def break_even_tokens(self) -> float | None:
        """The prompt length from which a hit is faster: R T0 / (1 - B*/B), or None: never, since B is not above B*.

        Raises ConfigError if T0 was not measured and B is above B*.
        """
        if self.bandwidth_bytes_per_s <= self.bstar_bytes_per_s:
            return None
        return self.prefill_tokens_per_s * self._t0() / (1 - self.bstar_bytes_per_s / self.bandwidth_bytes_per_s)

    def rho(self, requests_per_s: float, hit_tokens: float) -> float:
        """Load of the remote tier, lambda n s / B: at 1 and above its queue grows for as long as requests come."""
        return requests_per_s * self.transfer_s(hit_tokens)

    def recompute_load(self, requests_per_s: float, tokens: float) -> float:
        """Load of the engine if it recomputes every prompt: lambda n / R."""
        return requests_per_s * self.recompute_s(tokens)

    def rate_for_rho(self, rho: float, hit_tokens: float) -> float:
        """Requests a second at which the remote tier has load `rho`: rho B / (n s). Inverse of `rho`."""
        transfer_s = self.transfer_s(hit_tokens)
        return rho / transfer_s if transfer_s > 0 else math.inf

    def shards_needed(self, requests_per_s: float, hit_tokens: float, below_rho: float) -> int:
        """The fewest equal instances, each delivering B and holding an equal share, whose load is below `below_rho`.

        Raises ConfigError if `below_rho` is not above zero.
        """
        _require(below_rho > 0, "below_rho", below_rho, "above zero")
        return math.floor(self.rho(requests_per_s, hit_tokens) / below_rho) + 1

    def _t0(self) -> float:
        if self.hit_fixed_s is None:
            raise ConfigError("T0, the fixed cost of a hit, is not known", where="hit_fixed_s", remedy="measure it")
        return self.hit_fixed_s


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {value}", where="cost model", remedy=f"it is {expected}")
