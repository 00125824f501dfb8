"""R, c and q from cold prompts, T0 and B from hits: straight lines (or a parabola) through measured times.

Relative errors count, so that short prompts weigh as much as long ones, and those far from the others weigh less
(Huber, Robust Estimation of a Location Parameter, 1964): a shared machine has moments. No term is negative: no machine
has such.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.stats import f as f_distribution

from harness.errors import ConfigError

FloatArray = npt.NDArray[np.float64]

DRAWS = 500
_FEWEST_LENGTHS = 3
_FEWEST_EACH = 2
_QUADRATIC_P = 0.05
_HUBER = 1.345  # standard deviations up to which a residual counts in full
_MEDIAN_OF_NORMAL = 0.6745  # median of |z|, in standard deviations
_ROUNDS = 20
_EXACT = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Seconds = terms[0] + terms[1] n + terms[2] n^2, fitted to `seconds` at n = `tokens` x `slowdowns`.

    The arrays are of shape [points]. `draws` (shape [DRAWS, 3]) are the terms of bootstrap resamples, each length's
    points resampled among themselves.
    """

    tokens: FloatArray
    slowdowns: FloatArray
    seconds: FloatArray
    terms: FloatArray
    draws: FloatArray

    def at(self, tokens: float) -> float:
        """Seconds by the fit."""
        return float(self.terms @ np.array([1.0, tokens, tokens**2]))

    @property
    def residuals(self) -> FloatArray:
        """(measured - fitted) / fitted of each point, shape [points]."""
        fitted = _columns(self.tokens * self.slowdowns, quadratic=True) @ self.terms
        return np.asarray(self.seconds / fitted - 1)

    @property
    def residual_share(self) -> float:
        """The typical residual: root of the mean square."""
        return float(np.sqrt(np.mean(self.residuals**2)))

    @property
    def noise(self) -> float:
        """The standard deviation of the residuals as most of them have it: from their median size."""
        return float(np.median(np.abs(self.residuals))) / _MEDIAN_OF_NORMAL

    @property
    def is_quadratic(self) -> bool:
        """Whether the points want the n^2 term."""
        return bool(self.terms[2] > 0)


def fit_prefill(tokens: Sequence[float], seconds: Sequence[float]) -> Line:
    """Time to prefill cold prompts against their length: c + n / R, and + q n^2 where an F-test at 5 % wants it.

    Raises ConfigError for too few points, or times that do not grow with length.
    """
    n, t = _points(tokens, seconds)
    straight, curved = _least_squares(n, t, quadratic=False), _least_squares(n, t, quadratic=True)
    quadratic = curved[1] > 0 and _wanted(n, t, straight, curved)
    terms = _robust(n, t, quadratic=quadratic)
    if quadratic and terms[1] <= 0:  # the square has taken all of it: no rate is left to tell
        quadratic, terms = False, _robust(n, t, quadratic=False)
    if terms[1] <= 0:
        raise ConfigError(
            "longer cold prompts do not take longer: their fixed cost hides what a token costs",
            where="fit",
            remedy="measure longer prompts, or more of them on a quieter machine",
        )
    draws = _resample(n, n, t, quadratic=quadratic)
    return Line(n, np.ones_like(n), t, terms, draws[draws[:, 1] > 0])


def fit_hits(tokens: Sequence[float], seconds: Sequence[float], slowdowns: Sequence[float] | None = None) -> Line:
    """Time of hits against the tokens loaded: T0 + n (s / B) x slowdown (model.placement); 1 where none is given.

    The slope is 0 where longer hits do not take longer. Raises ConfigError for too few points.
    """
    n, t = _points(tokens, seconds)
    times = np.ones_like(n) if slowdowns is None else np.asarray(slowdowns, dtype=np.float64)
    terms = _robust(n * times, t, quadratic=False)
    return Line(n, times, t, terms, _resample(n, n * times, t, quadratic=False))


def _points(tokens: Sequence[float], seconds: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    n, t = np.asarray(tokens, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    if not (np.isfinite(n).all() and np.isfinite(t).all() and (n > 0).all() and (t > 0).all()):
        raise ConfigError(
            "a length or a time is not a number above zero", where="fit", remedy="leave failed requests out"
        )
    lengths, counts = np.unique(n, return_counts=True)
    if len(lengths) < _FEWEST_LENGTHS or counts.min() < _FEWEST_EACH:
        fewest = f", {counts.min()} at the rarest of them" if counts.size else ""
        raise ConfigError(
            f"too few points for a fit: {len(n)} at {len(lengths)} lengths{fewest}",
            where="fit",
            remedy=f"measure {_FEWEST_LENGTHS} lengths or more, {_FEWEST_EACH} times or more each",
        )
    return n, t


def _columns(n: FloatArray, *, quadratic: bool) -> FloatArray:
    columns = [np.ones_like(n), n, n**2] if quadratic else [np.ones_like(n), n]
    return np.stack(columns, axis=1)


def _least_squares(n: FloatArray, t: FloatArray, *, quadratic: bool, weights: FloatArray | None = None) -> FloatArray:
    """The three terms with the least squared relative residuals; the third is 0 without `quadratic`."""
    roots = np.ones_like(t) if weights is None else np.sqrt(weights)
    columns = _columns(n, quadratic=quadratic) * (roots / t)[:, None]
    scale = np.abs(columns).max(axis=0)
    solution, _ = nnls(columns / scale, roots)
    terms = np.zeros(3)
    terms[: len(scale)] = solution / scale
    return terms


def _robust(n: FloatArray, t: FloatArray, *, quadratic: bool) -> FloatArray:
    """The same with Huber's weights, by least squares over and over; residuals spread as their median size says."""
    terms, columns = _least_squares(n, t, quadratic=quadratic), _columns(n, quadratic=True)
    for _ in range(_ROUNDS):
        sizes = np.abs(columns @ terms / t - 1)
        full = _HUBER * float(np.median(sizes)) / _MEDIAN_OF_NORMAL
        if full < _EXACT:
            break
        before = terms
        terms = _least_squares(n, t, quadratic=quadratic, weights=full / np.maximum(sizes, full))
        if np.allclose(terms, before, rtol=_EXACT, atol=0):
            break
    return terms


def _wanted(n: FloatArray, t: FloatArray, straight: FloatArray, curved: FloatArray) -> bool:
    """Whether the third term explains more than chance would (F-test of nested models)."""
    left = len(n) - 3
    rss = [float(np.sum((_columns(n, quadratic=True) @ terms / t - 1) ** 2)) for terms in (straight, curved)]
    if left < 1 or rss[0] <= rss[1]:
        return False
    if rss[1] == 0:
        return True
    return bool(f_distribution.sf((rss[0] - rss[1]) / (rss[1] / left), 1, left) < _QUADRATIC_P)


def _resample(lengths: FloatArray, n: FloatArray, t: FloatArray, *, quadratic: bool) -> FloatArray:
    random = np.random.default_rng(0)
    groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
    draws = []
    for _ in range(DRAWS):
        chosen = np.concatenate([random.choice(group, size=len(group)) for group in groups])
        draws.append(_robust(n[chosen], t[chosen], quadratic=quadratic))
    return np.stack(draws)
