"""A run in words and numbers: every finding, every caveat, the verdict. What summary.json holds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.analysis.arms import arm_findings
from harness.analysis.checks import find_caveats
from harness.analysis.explained import explained_caveats, explained_findings
from harness.analysis.finding import Finding, ScopedCaveat
from harness.analysis.machine import machine_findings
from harness.analysis.prediction import prediction_findings
from harness.analysis.resample import RESAMPLES
from harness.analysis.score import score_findings
from harness.analysis.verdict import Verdict, judge
from harness.records import Caveat, Run


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run says. `facts` are its name, status and versions; `scoped_caveats` say what each caveat is about.

    `selftest` is what the client found out about itself on the machine of the run (run.json); None if it never did.
    """

    facts: Mapping[str, str]
    findings: tuple[Finding, ...]
    scoped_caveats: tuple[ScopedCaveat, ...]
    verdict: Verdict
    selftest: Mapping[str, Any] | None = None

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Every caveat once."""
        return tuple(dict.fromkeys(scoped.caveat for scoped in self.scoped_caveats))


def summarise(run: Run, resamples: int = RESAMPLES) -> Summary:
    """The findings of `run`, each with the caveats that concern it, and the verdict. Same run, same summary."""
    caveats = (*find_caveats(run), *explained_caveats(run))
    bare = (
        *machine_findings(run),
        *arm_findings(run, resamples),
        *explained_findings(run),
        *prediction_findings(run),
        *score_findings(run, resamples),
    )
    findings = tuple(
        replace(finding, caveats=tuple(dict.fromkeys(s.caveat for s in caveats if s.concerns(finding.by))))
        for finding in bare
    )
    return Summary(_facts(run), findings, caveats, judge(findings, caveats, run.meta), run.meta.get("selftest"))


def to_json(summary: Summary) -> dict[str, Any]:
    """`summary` as the document of summary.json: only dicts, lists, strings, finite numbers and null."""
    return {
        "facts": dict(summary.facts),
        "verdict": {"word": summary.verdict.word.value, "sentence": summary.verdict.sentence},
        "caveats": [{**_caveat(scoped.caveat), "by": dict(scoped.by)} for scoped in summary.scoped_caveats],
        "selftest": summary.selftest,
        "findings": [_finding(finding) for finding in summary.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    estimate = finding.estimate
    return {
        "name": finding.name,
        "unit": finding.unit,
        "by": dict(finding.by),
        "value": _finite(estimate.value),
        "low": _finite(estimate.low),
        "high": _finite(estimate.high),
        "n": estimate.n,
        "method": estimate.method,
        "caveats": [_caveat(caveat) for caveat in finding.caveats],
    }


def _caveat(caveat: Caveat) -> dict[str, str]:
    return {"kind": caveat.kind, "text": caveat.text, "remedy": caveat.remedy}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _facts(run: Run) -> dict[str, str]:
    named = {name: str(run.meta[name]) for name in ("experiment", "run_id", "status") if run.meta.get(name)}
    versions: Mapping[str, Any] = run.meta.get("versions") or {}
    return named | {str(name): str(version) for name, version in versions.items() if version is not None}
