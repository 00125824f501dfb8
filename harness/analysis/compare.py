"""`compare`: one arm against another, paired by trace row. Differences are B less A, ratios B over A."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from harness.analysis.checks import find_caveats
from harness.analysis.finding import Estimate, Finding, ScopedCaveat
from harness.analysis.measured import FloatArray
from harness.analysis.must_match import Mismatch, identity, mismatches, refuse
from harness.analysis.pairs import ATTRIBUTION, ArmOf, Pairs, paired
from harness.analysis.resample import RESAMPLES, Latency, latency
from harness.records import Caveat

JUDGED_PERCENT = 97.5
"""p50 and p99 are both judged: each at this confidence, so that together they err in at most 5 of 100 comparisons."""
_SIGNIFICANT = 0.05
_MOST_MOVED = 10
_FEW_FOR_P99 = 100


class Change(StrEnum):
    """What the pairs show of B beside A. NOT_SHOWN is a result, and not the same as equal."""

    LOWER = "lower"
    HIGHER = "higher"
    NOT_SHOWN = "not shown to differ"


@dataclass(frozen=True, slots=True)
class Moved:
    """A row that moved much: its value on either side, and what the two runs know of where the time went."""

    repeat: int
    row: int
    a: float
    b: float
    attribution: dict[str, tuple[float | None, float | None]]


@dataclass(frozen=True, slots=True)
class PassComparison:
    """One workload and pass: findings (docs/method.md, "Comparing two arms"), what is shown, and who moved most."""

    workload: str
    pass_name: str
    pairs: int
    unpaired: int
    failed: int
    findings: tuple[Finding, ...]
    p50: Change
    p99: Change | None
    moved: tuple[Moved, ...]

    def estimate(self, name: str) -> Estimate | None:
        """The finding of that name, if there is one."""
        return next((f.estimate for f in self.findings if f.name == name), None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """B beside A in every pass both ran; `allowed` says which keys differ and were let pass."""

    a: str
    b: str
    metric: str
    passes: tuple[PassComparison, ...]
    allowed: tuple[Mismatch, ...]
    caveats: tuple[tuple[str, Caveat], ...]


def compare(
    a: ArmOf, b: ArmOf, metric: str = "ttft_ms", allow: Sequence[str] = (), resamples: int = RESAMPLES
) -> Comparison:
    """Compare two arms, of one run or of two. Raises IncomparableError where they are not the same measurement."""
    found = mismatches(identity(a.run.meta), identity(b.run.meta))
    allowed = refuse(found, allow, f"{a.label} and {b.label}")
    passes = tuple(_compare(pairs, metric, resamples) for pairs in paired(a, b, metric))
    caveats = tuple((side.label, caveat) for side in (a, b) for caveat in _concerning(side))
    return Comparison(a.label, b.label, metric, passes, allowed, caveats)


def change(difference: Estimate | None, p_value: float | None = None) -> Change:
    """What an interval of a difference shows: that it lies on one side of 0, and that the sign test agrees."""
    if difference is None or difference.low is None or difference.high is None:
        return Change.NOT_SHOWN
    if p_value is not None and not p_value < _SIGNIFICANT:
        return Change.NOT_SHOWN
    return Change.LOWER if difference.high < 0 else Change.HIGHER if difference.low > 0 else Change.NOT_SHOWN


def wilcoxon_p(differences: FloatArray) -> float | None:
    """The two-sided p-value of Wilcoxon's signed-rank test (zeros split, as Pratt does); None if nothing differs."""
    if not np.any(differences):
        return None
    return float(stats.wilcoxon(differences, zero_method="pratt", method="approx").pvalue)


def _compare(pairs: Pairs, metric: str, resamples: int) -> PassComparison:
    whole = pairs.whole
    sides = [latency(pairs.values(side), resamples) for side in ("a", "b")]
    differences = [b - a for a, b in zip(pairs.values("a"), pairs.values("b"), strict=True)]
    shift = latency(differences, resamples)
    counts = (len(whole), pairs.unpaired, len(pairs.table) - len(whole))
    a, b = sides
    if a is None or b is None or shift is None:
        return PassComparison(pairs.workload, pairs.pass_name, *counts, (), Change.NOT_SHOWN, None, ())
    moved_ms = (whole["b"] - whole["a"]).to_numpy(dtype=np.float64)
    p_value = wilcoxon_p(moved_ms)
    by = {"workload": pairs.workload, "pass": pairs.pass_name}
    findings = (*_findings(a, b, shift, by), *_shares(moved_ms, p_value, by))
    p50 = change(shift.estimate("p50", JUDGED_PERCENT, positive=False), p_value if p_value is not None else 1.0)
    p99 = change(b.difference(a, "p99", JUDGED_PERCENT)) if len(whole) >= _FEW_FOR_P99 else None
    return PassComparison(pairs.workload, pairs.pass_name, *counts, findings, p50, p99, _moved(pairs))


def _findings(a: Latency, b: Latency, shift: Latency, by: dict[str, str]) -> list[Finding]:
    found = [Finding("paired_difference_p50", "ms", shift.estimate("p50", positive=False), by)]
    for name in ("p50", "p99"):
        found += [
            Finding(f"{name}_a", "ms", a.estimate(name), by),
            Finding(f"{name}_b", "ms", b.estimate(name), by),
            Finding(f"{name}_difference", "ms", b.difference(a, name), by),
            Finding(f"{name}_ratio", "x", b.ratio(a, name), by),
        ]
    return found


def _shares(moved_ms: FloatArray, p_value: float | None, by: dict[str, str]) -> list[Finding]:
    n = len(moved_ms)
    found = []
    for name, count in (("lower_share", int((moved_ms < 0).sum())), ("higher_share", int((moved_ms > 0).sum()))):
        exact = stats.binomtest(count, n).proportion_ci(method="wilson")
        estimate = Estimate(count / n, float(exact.low), float(exact.high), n, "share of pairs, Wilson's 95 % interval")
        found.append(Finding(name, "", estimate, by))
    if p_value is not None:
        method = "Wilcoxon's signed-rank test, two-sided, Pratt's zeros, normal approximation"
        found.append(Finding("wilcoxon_p", "", Estimate(p_value, None, None, n, method), by))
    return found


def _moved(pairs: Pairs) -> tuple[Moved, ...]:
    whole = pairs.whole
    order = (whole["b"] - whole["a"]).abs().sort_values(ascending=False, kind="stable").index[:_MOST_MOVED]
    found = []
    for row in whole.loc[order].to_dict("records"):
        known = {
            name: (_number(row[f"{name}_a"]), _number(row[f"{name}_b"])) for name in ATTRIBUTION if f"{name}_a" in row
        }
        told = {name: values for name, values in known.items() if values != (None, None)}
        found.append(Moved(int(row["repeat"]), int(row["row"]), float(row["a"]), float(row["b"]), told))
    return tuple(found)


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _concerning(side: ArmOf) -> list[Caveat]:
    """The caveats of the run that concern this arm."""
    found: tuple[ScopedCaveat, ...] = find_caveats(side.run)
    return list(dict.fromkeys(one.caveat for one in found if one.by.get("arm", side.arm) == side.arm))
