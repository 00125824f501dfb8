"""How the chunks of a prompt lie on several instances: a prompt is there when the fullest of them has sent its part.

Where each chunk's instance follows from its hash, k chunks fall on N instances like k balls into N bins: some instance
holds more than k / N of them, and the others wait for it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from harness.errors import ConfigError

Spread = Sequence[tuple[float, float]]
"""How many times as long as an equal share of the instances a prompt takes to arrive, each with its probability."""

_MOST_COUNTED = 4096
_CERTAIN = 1e-12


@dataclass(frozen=True, slots=True)
class Placement:
    """Prompts on `instances` equal instances.

    `chunk_tokens`: chunks of so many tokens, each as a whole on the instance that its hash names. None: equal parts on
    all of them, as by rank, or chunk after chunk in turn where there are many. Raises ConfigError for no instance, or
    an empty chunk.
    """

    instances: float = 1
    chunk_tokens: int | None = None

    def __post_init__(self) -> None:
        if not self.instances > 0 or (self.chunk_tokens is not None and self.chunk_tokens < 1):
            raise ConfigError(
                f"{self.instances} instances, chunks of {self.chunk_tokens} tokens",
                where="placement",
                remedy="both are above zero",
            )

    @property
    def is_even(self) -> bool:
        """Whether every instance holds an equal part of every prompt."""
        return self.chunk_tokens is None or self.instances <= 1

    def spread(self, tokens: float) -> Spread:
        """What a prompt of `tokens` tokens may have to wait for, in multiples of an equal share."""
        if self.chunk_tokens is None or self.instances <= 1:
            return ((1.0, 1.0),)
        return _spread(max(1, round(tokens / self.chunk_tokens)), round(self.instances))

    def slowdown(self, tokens: float) -> float:
        """The mean of `spread`: instances x the expected share of the fullest. 1 where all hold as much."""
        return sum(times * probability for times, probability in self.spread(tokens))


EVEN = Placement()


@lru_cache(maxsize=1024)
def fullest(chunks: int, instances: int) -> tuple[float, ...]:
    """P(the fullest of `instances` bins has m of `chunks` balls thrown at random), for m from 0 to `chunks`.

    All counts are at most m with probability k! [x^k] (sum over j <= m of x^j / j!)^N / N^k: the multinomial
    distribution function. In Levin's form (Annals of Statistics, 1981) the sum is over Poisson probabilities of mean
    k / N, divided by P(Poisson(k) = k), of which a discrete Fourier transform gives the coefficient within rounding.
    """
    mean = chunks / instances
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, chunks + 1)))])
    poisson = np.exp(np.arange(chunks + 1) * math.log(mean) - mean - log_factorials)
    whole = math.exp(chunks * math.log(chunks) - chunks - math.lgamma(chunks + 1))
    size = 2 * chunks + 16 * math.isqrt(chunks) + 64  # all of N truncated Poisson variables sum up to less, for certain
    turn = np.exp(2j * np.pi * chunks * np.arange(size) / size)
    below, found = 0.0, [0.0] * (chunks + 1)
    for most in range(math.ceil(mean), chunks + 1):
        at_most = float(np.mean(np.fft.fft(poisson[: most + 1], size) ** instances * turn).real) / whole
        found[most] = max(0.0, at_most - below)
        below = max(below, at_most)
        if below > 1 - _CERTAIN:
            break
    return tuple(found)


@lru_cache(maxsize=4096)
def _spread(chunks: int, instances: int) -> Spread:
    """Beyond what is counted out, the excess over an equal share falls with the root of k (Raab and Steger, 1998)."""
    counted = min(chunks, _MOST_COUNTED)
    shrink = math.sqrt(counted / chunks)
    return tuple(
        (1 + (most * instances / counted - 1) * shrink, probability)
        for most, probability in enumerate(fullest(counted, instances))
        if probability > _CERTAIN
    )
