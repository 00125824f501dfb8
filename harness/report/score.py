"""Prediction beside measurement, as rows of a table: the numbers are findings of analysis/score.py."""

import math
from collections.abc import Mapping

from harness.analysis import Finding, Summary
from harness.analysis.wording import digits
from harness.report.cells import MISSING, Table, table_by_pass
from harness.report.rows import RISING

_HEADERS = (
    *("workload/pass", "arm", "what", "rho predicted", "rho measured"),
    *("p50 predicted ms", "p50 measured ms", "predicted / measured"),
    *("p99 predicted ms", "p99 measured ms", "predicted / measured"),
)
_WINNER_HEADERS = (
    *("workload/pass", "arm", "p50 / recompute predicted", "measured", "same winner"),
    *("p99 / recompute predicted", "measured", "same winner"),
)


def score_table(summary: Summary) -> Table:
    """One row an arm, workload, pass, kind of request and length."""
    found: dict[tuple[str, ...], dict[str, Finding]] = {}
    for finding in summary.findings:
        if "kind" in finding.by:
            by = finding.by
            place = (f"{by['workload']}/{by['pass']}", by["arm"], f"{by['kind']} of {int(by['tokens']):,} tokens")
            found.setdefault(place, {})[finding.name] = finding
    names = ["predicted_rho", "measured_rho"]
    for quantile in ("p50", "p99"):
        names += [f"predicted_{quantile}", f"measured_{quantile}", f"predicted_over_measured_{quantile}"]
    lines = ((*place, *(_cell(own.get(name)) for name in names)) for place, own in found.items())
    return table_by_pass(_HEADERS, lines, text_columns=3)


def winner_table(summary: Summary) -> Table:
    """Who is faster, by prediction and by measurement; one row an arm, workload and pass that was predicted."""
    found: dict[tuple[str, str], dict[str, Finding]] = {}
    for finding in summary.findings:
        by = finding.by
        if "pass" in by and "kind" not in by and finding.name.endswith("_ratio"):
            found.setdefault((f"{by['workload']}/{by['pass']}", by["arm"]), {})[finding.name] = finding
    told = {place: own for place, own in found.items() if "predicted_p50_ratio" in own}
    lines = ((*place, *_pair(own, "p50"), *_pair(own, "p99")) for place, own in told.items())
    return table_by_pass(_WINNER_HEADERS, lines)


def _pair(own: Mapping[str, Finding], quantile: str) -> tuple[str, str, str]:
    predicted, measured = own.get(f"predicted_{quantile}_ratio"), own.get(f"ttft_{quantile}_ratio")
    same = MISSING
    if predicted is not None and measured is not None:
        same = "yes" if (predicted.estimate.value < 1) == (measured.estimate.value < 1) else "no"
    return _value(predicted), _value(measured), same


def _value(finding: Finding | None) -> str:
    if finding is None:
        return MISSING
    value = finding.estimate.value
    return "without end" if math.isinf(value) else digits(value)


def _cell(finding: Finding | None) -> str:
    """The value; a measured median also says where there was no steady state."""
    unstable = finding is not None and any(caveat.kind == "unstable" for caveat in finding.caveats)
    marked = unstable and finding is not None and finding.name == "measured_p50"
    return _value(finding) + (RISING if marked else "")
