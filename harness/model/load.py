"""What many requests do to each other: loads, queues, and how many instances keep them short.

Arrivals are taken as Poisson, every prompt as equally long: a load then waits as in an M/D/1 queue, one server with a
fixed service time. The server is the remote tier for loads, the engine for recomputing and for loads in its step. Where
chunks lie on instances by their hash, a prompt's fullest instance is the server: parts come to it as long, and as many
times fewer, as it holds more than an equal share.
"""

import math
from dataclasses import dataclass

from harness.errors import ConfigError
from harness.model.cost import CostModel, fewest
from harness.model.placement import Spread
from harness.model.queue import sojourn_s

ROUTED_RHO = 0.8
"""Load to stay under: the mean wait of M/D/1, rho / (2 (1 - rho)) services, is 2 there and grows without end beyond."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """`requests_per_s` prompts a second of `prompt_tokens` tokens, of which `hit_share` (0 to 1) hit.

    `in_step`: loads run inside the engine step, so that one holds up every request and every rank. Raises ConfigError
    for what no traffic is.
    """

    requests_per_s: float
    prompt_tokens: float
    hit_share: float = 1.0
    in_step: bool = False

    def __post_init__(self) -> None:
        for name in ("requests_per_s", "prompt_tokens"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}", where="traffic", remedy="it is above zero")
        if not 0 <= self.hit_share <= 1:
            raise ConfigError(f"hit_share is {self.hit_share}", where="traffic", remedy="it is 0 to 1")

    @property
    def hits_per_s(self) -> float:
        """Requests a second that hit."""
        return self.requests_per_s * self.hit_share


def remote_load(model: CostModel, traffic: Traffic) -> float:
    """rho of the remote tier: lambda f n s / B."""
    return model.rho(traffic.hits_per_s, traffic.prompt_tokens)


def recompute_load(model: CostModel, traffic: Traffic) -> float:
    """Load of the engine if everything recomputes."""
    return model.recompute_load(traffic.requests_per_s, traffic.prompt_tokens)


def engine_load(model: CostModel, traffic: Traffic) -> float:
    """Load of the engine with the remote tier: misses recompute, and loads in the step hold it as long as they take."""
    misses = traffic.requests_per_s * (1 - traffic.hit_share) * model.recompute_s(traffic.prompt_tokens)
    return misses + (traffic.hits_per_s * model.hit_s(traffic.prompt_tokens) if traffic.in_step else 0.0)


def highest_stable_rate(model: CostModel, traffic: Traffic) -> float:
    """Requests a second up to which neither the remote tier nor the engine builds a queue without end."""
    busiest = max(remote_load(model, traffic), engine_load(model, traffic))
    return traffic.requests_per_s / busiest if busiest > 0 else math.inf


def routed_share(model: CostModel, traffic: Traffic, below_rho: float = ROUTED_RHO) -> float:
    """The share of hits to load (the others recompute) so that rho stays at `below_rho`; 1: all of them."""
    rho = remote_load(model, traffic)
    return min(1.0, below_rho / rho) if rho > 0 else 1.0


def engine_s_given_back(model: CostModel, traffic: Traffic) -> float:
    """Engine seconds a second that hits free: the time to recompute them, less what loads in the step take instead."""
    taken_s = model.hit_s(traffic.prompt_tokens) if traffic.in_step else 0.0
    return traffic.hits_per_s * (model.recompute_s(traffic.prompt_tokens) - taken_s)


def recompute_quantile_s(model: CostModel, traffic: Traffic, quantile: float) -> float:
    """TTFT that a share `quantile` of the requests meets if all recompute: wait of the engine's queue + own time."""
    own_s = model.recompute_s(traffic.prompt_tokens)
    return sojourn_s([(own_s, 1.0)], traffic.requests_per_s, own_s, quantile)


def hit_quantile_s(model: CostModel, traffic: Traffic, quantile: float, spread: Spread | None = None) -> float:
    """TTFT that a share `quantile` of the hits meets: T0 + wait of the remote tier's queue + transfer.

    Loads in the step queue at the engine, each for as long as a hit takes. `spread`: how the prompts lie on the
    instances, where it is known; None: as their placement makes it likely.
    """
    tokens = traffic.prompt_tokens
    known = model.placement.spread(tokens) if spread is None else spread
    own = [(model.hit_s(tokens, slowdown), share) for slowdown, share in known]
    slowdown = sum(times * share for times, share in known)
    if traffic.in_step:
        return sojourn_s(own, traffic.hits_per_s, model.hit_s(tokens, slowdown), quantile)
    return sojourn_s(own, traffic.hits_per_s / slowdown, slowdown * model.work_s(tokens), quantile)


def shards_for_quantile(model: CostModel, traffic: Traffic, quantile: float, target_s: float) -> float:
    """The fewest equal instances with which `hit_quantile_s` is at most `target_s`; infinite: no number is enough."""
    return fewest(lambda count: hit_quantile_s(model.instances(count), traffic, quantile) <= target_s)
