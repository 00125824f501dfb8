"""A run in words and numbers: every finding, every caveat, the verdict. What summary.json holds."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from harness.analysis.arms import arm_findings
from harness.analysis.checks import find_caveats
from harness.analysis.explained import explained_caveats, explained_findings
from harness.analysis.finding import Estimate, Finding, ScopedCaveat
from harness.analysis.machine import machine_findings
from harness.analysis.prediction import prediction_findings
from harness.analysis.rates import Slo
from harness.analysis.resample import RESAMPLES
from harness.analysis.score import fixed_cost_findings, score_findings
from harness.analysis.verdict import Verdict, judge
from harness.records import Caveat, Run


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run says. `facts` are its name, status and versions; `scoped_caveats` say what each caveat is about.

    `selftest` is what the client found out about itself on the machine of the run (run.json); None if it never did.
    `slos` are the limits that goodput was asked under.
    """

    facts: Mapping[str, str]
    findings: tuple[Finding, ...]
    scoped_caveats: tuple[ScopedCaveat, ...]
    verdict: Verdict
    selftest: Mapping[str, Any] | None = None
    slos: tuple[Slo, ...] = ()

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Every caveat once."""
        return tuple(dict.fromkeys(scoped.caveat for scoped in self.scoped_caveats))


def summarise(run: Run, resamples: int = RESAMPLES, slos: Sequence[Slo] = ()) -> Summary:
    """The findings of `run`, each with the caveats that concern it, and the verdict. Same run, same summary.

    A figure that is not finite (a ratio to 0) is no finding, unless it predicts a queue without end; an end of an
    interval that is not finite is no interval.
    """
    caveats = (*find_caveats(run), *explained_caveats(run))
    bare = (
        *machine_findings(run),
        *fixed_cost_findings(run),
        *arm_findings(run, resamples, slos),
        *explained_findings(run),
        *prediction_findings(run),
        *score_findings(run, resamples),
    )
    findings = tuple(
        replace(
            finding,
            estimate=_whole(finding.estimate),
            caveats=tuple(dict.fromkeys(s.caveat for s in caveats if s.concerns(finding.by))),
        )
        for finding in bare
        if math.isfinite(finding.estimate.value) or _without_end(finding)
    )
    verdict = judge(findings, caveats, run.meta)
    return Summary(_facts(run), findings, caveats, verdict, run.meta.get("selftest"), tuple(slos))


def to_json(summary: Summary) -> dict[str, Any]:
    """`summary` as the document of summary.json: only dicts, lists, strings, finite numbers and null."""
    return {
        "facts": dict(summary.facts),
        "verdict": {
            "word": summary.verdict.word.value,
            "sentence": summary.verdict.sentence,
            "judged": summary.verdict.judged,
            "arms": [{"arm": one.arm, "advice": one.advice, "text": one.text} for one in summary.verdict.arms],
        },
        "caveats": [
            {**caveat_json(scoped.caveat), "by": dict(scoped.by), "evidence": list(scoped.caveat.evidence)}
            for scoped in summary.scoped_caveats
        ],
        "selftest": summary.selftest,
        "slos": {slo.metric: slo.limit_ms for slo in summary.slos},
        "findings": [finding_json(finding) for finding in summary.findings],
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as JSON says it; what is predicted to have no end has the value null."""
    estimate = finding.estimate
    return {
        "name": finding.name,
        "unit": finding.unit,
        "by": dict(finding.by),
        "value": estimate.value if math.isfinite(estimate.value) else None,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "method": estimate.method,
        "caveats": [caveat_json(caveat) for caveat in finding.caveats],
    }


def caveat_json(caveat: Caveat) -> dict[str, str]:
    """A caveat as JSON says it, without its evidence."""
    return {"kind": caveat.kind, "text": caveat.text, "remedy": caveat.remedy}


def _without_end(finding: Finding) -> bool:
    """Whether it is a prediction that says: there is no steady state."""
    return finding.name.startswith("predicted_") and finding.estimate.value == math.inf


def _whole(estimate: Estimate) -> Estimate:
    ends = (estimate.low, estimate.high)
    whole = all(end is not None and math.isfinite(end) for end in ends)
    return estimate if whole or ends == (None, None) else replace(estimate, low=None, high=None)


def _facts(run: Run) -> dict[str, str]:
    """The run's name and state, versions, and what the machine and the model are."""
    meta = run.meta
    named = {name: meta.get(name) for name in ("experiment", "run_id", "status")}
    with contextlib.suppress(ValueError):
        named["utc"] = (
            f"{datetime.strptime(str(meta.get('utc')), '%Y%m%dT%H%M%SZ').replace(tzinfo=UTC):%Y-%m-%d %H:%M} UTC"
        )
    versions: Mapping[str, Any] = meta.get("versions") or {}
    model = {"model": ((meta.get("spec") or {}).get("engine") or {}).get("model")}
    machine = {name: value for name, value in (meta.get("machine") or {}).items() if value not in (None, [], {})}
    return {
        str(name): str(value) for name, value in (named | dict(versions) | model | machine).items() if value is not None
    }
