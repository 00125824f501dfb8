"""The cost model's picture: from which bandwidth and prompt length on a hit is faster, and where the arms stand."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analysis.finding import Finding
from harness.analysis.measured import measured_groups
from harness.analysis.roles import placements
from harness.model import CostModel
from harness.model.placement import EVEN
from harness.records import Run

_STEPS = 80


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """An arm: the bandwidth of all its links together (bytes/s), the median tokens of a request's hit, and its T0.

    `line` is the break-even length n*(B), in tokens, at bandwidths around it; empty where T0 is not known.
    """

    arm: str
    bandwidth_bytes_per_s: float
    hit_tokens: float
    hit_fixed_s: float | None
    line: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class BreakEven:
    """B* (bytes/s), and the operating points of the arms whose bandwidth is known."""

    bstar_bytes_per_s: float
    points: tuple[OperatingPoint, ...]


def break_even(run: Run, findings: Sequence[Finding]) -> BreakEven | None:
    """None without R and s, or without an arm to mark."""
    told = {finding.name: finding.estimate.value for finding in findings if not finding.by}
    rate, size = (told.get(name) for name in ("prefill_tokens_per_s", "kv_bytes_per_token"))
    if not rate or not size:
        return None
    model = CostModel(rate, size, None, math.inf)
    points = tuple(_points(model, run, findings))
    return BreakEven(model.bstar_bytes_per_s, points) if points else None


def _points(model: CostModel, run: Run, findings: Sequence[Finding]) -> Iterator[OperatingPoint]:
    arms: dict[str, dict[str, float]] = {}
    for finding in findings:
        if finding.by.keys() == {"arm"}:
            arms.setdefault(finding.by["arm"], {})[finding.name] = finding.estimate.value
    hits, placed = _median_hits(run), placements(run.meta)
    for arm, told in arms.items():
        link, instances, fixed_s = (told.get(name) for name in ("link_bytes_per_s", "valkey_instances", "hit_fixed_s"))
        if link and instances and hits.get(arm):
            bandwidth = link * instances
            own = replace(model, hit_fixed_s=fixed_s, placement=placed.get(arm, EVEN))
            yield OperatingPoint(arm, bandwidth, hits[arm], fixed_s, _line(own, bandwidth))


def _line(model: CostModel, bandwidth: float) -> tuple[tuple[float, float], ...]:
    """From just above B*, where it leaves for infinity, to beyond the arm's own bandwidth."""
    if not model.hit_fixed_s:
        return ()
    bstar = model.bstar_bytes_per_s
    along = (float(one) for one in np.geomspace(bstar * 1.02, max(bstar * 10, bandwidth * 2), _STEPS))
    lengths = ((one, replace(model, bandwidth_bytes_per_s=one).break_even.tokens) for one in along)
    return tuple((one, tokens) for one, tokens in lengths if math.isfinite(tokens))


def _median_hits(run: Run) -> Mapping[str, float]:
    found: dict[str, list[float]] = {}
    for group in measured_groups(run):
        cached = group.ok["cached_tokens"].dropna().astype(float)
        found.setdefault(group.arm, []).extend(cached[cached > 0])
    return {arm: float(np.median(values)) for arm, values in found.items() if values}
