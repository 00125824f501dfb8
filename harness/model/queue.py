"""How long a request is under way that waits in a queue first: M/D/1, Poisson arrivals at one server of fixed service.

Up to one service time D the wait is exact, P(W <= t) = (1 - rho) exp(lambda t) (Erlang, 1909); beyond, it is the
exponential tail of the queue: P(W > t) = C exp(-eta t), eta > 0 from lambda (exp(eta D) - 1) = eta, C = (1 - rho) /
(rho exp(eta D) - 1) (Asmussen, Applied Probability and Queues, 2003, XIII.5).
"""

import math
from collections.abc import Sequence

from scipy.optimize import brentq

_NEAR_ONE, _NEAR_ZERO = 1e-9, 1e-9
_HALVINGS = 40


def md1_wait_s(arrivals_per_s: float, service_s: float, quantile: float) -> float:
    """Waiting time (s) that a share `quantile` of the arrivals does not exceed.

    Infinite where rho is 1 or more, or so near that the numbers cannot tell.
    """
    rho = arrivals_per_s * service_s
    if rho <= 1 - quantile:
        return 0.0
    if rho >= 1 - _NEAR_ONE:
        return math.inf
    if quantile <= (1 - rho) * math.exp(rho):
        return math.log(quantile / (1 - rho)) / arrivals_per_s
    root, scale = _tail(rho)
    return max(1.0, math.log(scale / (1 - quantile)) / root) * service_s


def sojourn_s(own: Sequence[tuple[float, float]], arrivals_per_s: float, service_s: float, quantile: float) -> float:
    """Wait and own time together that a share `quantile` does not exceed; `own` has times (s) and their shares.

    The wait does not depend on which own time a request has. Infinite where the wait is.
    """
    wait_s = md1_wait_s(arrivals_per_s, service_s, quantile)
    low, high = min(own)[0], max(own)[0] + wait_s
    if math.isinf(wait_s) or len(own) == 1:
        return high
    rho = arrivals_per_s * service_s
    tail = _tail(rho) if rho > _NEAR_ZERO else None

    def within(time_s: float) -> float:
        return sum(share * _waits_within(time_s - one, arrivals_per_s, service_s, tail) for one, share in own)

    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if within(middle) >= quantile else (middle, high)
    return high


def _waits_within(time_s: float, arrivals_per_s: float, service_s: float, tail: tuple[float, float] | None) -> float:
    """P(W <= time_s); without a tail nobody waits."""
    if time_s < 0 or tail is None:
        return float(time_s >= 0)
    rho = arrivals_per_s * service_s
    if time_s < service_s:
        return (1 - rho) * math.exp(arrivals_per_s * time_s)
    root, scale = tail
    return max((1 - rho) * math.exp(rho), 1 - scale * math.exp(-root * time_s / service_s))


def _tail(rho: float) -> tuple[float, float]:
    """eta D and C of the exponential tail."""
    root = float(brentq(lambda x: rho * math.expm1(x) - x, -math.log(rho), 4 - 2 * math.log(rho)))
    return root, (1 - rho) / (root - (1 - rho))  # rho exp(root) = root + rho
