"""The cost model's picture: from which bandwidth and prompt length on a hit is faster, and where the arms stand."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.finding import Finding
from harness.analysis.measured import measured_groups
from harness.model import CostModel
from harness.records import Run

_STEPS = 80


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """An arm: the bandwidth of all its links together (bytes/s), and the median tokens of a request's hit."""

    arm: str
    bandwidth_bytes_per_s: float
    hit_tokens: float


@dataclass(frozen=True, slots=True)
class BreakEven:
    """B* (bytes/s), the line n*(B) = R T0 / (1 - B*/B) where T0 is known (else empty), the arms' operating points."""

    bstar_bytes_per_s: float
    hit_fixed_s: float | None
    line: tuple[tuple[float, float], ...]
    points: tuple[OperatingPoint, ...]


def break_even(run: Run, findings: Sequence[Finding]) -> BreakEven | None:
    """None without R and s. T0 is the finding `hit_fixed_s`, if the run has one."""
    told = {finding.name: finding.estimate.value for finding in findings if not finding.by}
    rate, size, fixed_s = (told.get(name) for name in ("prefill_tokens_per_s", "kv_bytes_per_token", "hit_fixed_s"))
    if not rate or not size:
        return None
    bstar = CostModel(rate, size, None, math.inf).bstar_bytes_per_s
    points = tuple(_points(run, findings))
    edges = [bstar * 1.02, *(point.bandwidth_bytes_per_s * 2 for point in points), bstar * 10]
    along = np.geomspace(edges[0], max(edges), _STEPS) if fixed_s else ()
    line = tuple((float(b), rate * (fixed_s or 0.0) / (1 - bstar / float(b))) for b in along)
    return BreakEven(bstar, fixed_s, line, points)


def _points(run: Run, findings: Sequence[Finding]) -> list[OperatingPoint]:
    arms: dict[str, dict[str, float]] = {}
    for finding in findings:
        if finding.by.keys() == {"arm"}:
            arms.setdefault(finding.by["arm"], {})[finding.name] = finding.estimate.value
    hits = _median_hits(run)
    return [
        OperatingPoint(arm, told["link_bytes_per_s"] * told["valkey_instances"], hits[arm])
        for arm, told in arms.items()
        if told.get("link_bytes_per_s") and told.get("valkey_instances") and hits.get(arm)
    ]


def _median_hits(run: Run) -> Mapping[str, float]:
    found: dict[str, list[float]] = {}
    for group in measured_groups(run):
        cached = group.ok["cached_tokens"].dropna().astype(float)
        found.setdefault(group.arm, []).extend(cached[cached > 0])
    return {arm: float(np.median(hits)) for arm, hits in found.items() if hits}
