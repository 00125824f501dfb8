"""What a gate says of one figure, and of all: no regression, a regression shown, or too noisy to tell."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scipy import stats

from harness.analysis.finding import Estimate
from harness.analysis.wording import digits

FEWEST_FOR_P50 = 20
FEWEST_FOR_P99 = 100
_SURE_OF_FAILURES = 0.01


class Ruling(StrEnum):
    """PASSED: shown to be within the limit. REGRESSED: shown to be beyond it. NOISY: the data cannot tell which."""

    PASSED = "no regression"
    REGRESSED = "regression shown"
    NOISY = "too noisy to tell"


@dataclass(frozen=True, slots=True)
class Check:
    """One figure of one arm, workload and pass, ruled upon; `text` says why, `ratio` is new over old."""

    by: Mapping[str, str]
    name: str
    ruling: Ruling
    text: str
    ratio: Estimate | None = None

    @property
    def label(self) -> str:
        """What was checked, as people read it."""
        return f"{self.by.get('arm', '')}, {self.by.get('workload', '')}/{self.by.get('pass', '')}: {self.name}"


@dataclass(frozen=True, slots=True)
class Gate:
    """Every check of a run `against` something, with `limit` the regression that is still let pass (0.05 is 5 %)."""

    run: str
    against: str
    limit: float
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def ruling(self) -> Ruling:
        """REGRESSED if any check is; PASSED only if there are checks, and all are."""
        rulings = {check.ruling for check in self.checks}
        if Ruling.REGRESSED in rulings:
            return Ruling.REGRESSED
        return Ruling.PASSED if rulings == {Ruling.PASSED} else Ruling.NOISY


def rule(ratio: Estimate, limit: float) -> tuple[Ruling, str]:
    """By where the interval of new / old lies: within 1 + limit, beyond it, or across."""
    if ratio.low is None or ratio.high is None:
        return Ruling.NOISY, f"{_times(ratio.value)} of before, without an interval"
    text = f"{_times(ratio.value)} of before [{_times(ratio.low)}, {_times(ratio.high)}], limit {_times(1 + limit)}"
    if ratio.low > 1 + limit:
        return Ruling.REGRESSED, text
    return (Ruling.PASSED if ratio.high <= 1 + limit else Ruling.NOISY), text


def rule_failures(failed: int, planned: int, failed_before: int, planned_before: int) -> tuple[Ruling, str]:
    """By Fisher's exact test, one-sided: are more requests failing than before?"""
    table = [[failed, planned - failed], [failed_before, planned_before - failed_before]]
    p_value = float(stats.fisher_exact(table, alternative="greater").pvalue)
    text = f"{failed} of {planned} failed, before {failed_before} of {planned_before} (Fisher's p {digits(p_value, 2)})"
    return (Ruling.REGRESSED if p_value < _SURE_OF_FAILURES else Ruling.PASSED), text


def _times(ratio: float) -> str:
    return f"{100 * ratio:,.1f} %"
