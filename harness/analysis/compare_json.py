"""A comparison as one JSON document: dicts, lists, strings, finite numbers and null."""

import math
from typing import Any

from harness.analysis.compare import Comparison, PassComparison
from harness.analysis.summary import caveat_json, finding_json


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """What `kvreplay compare --json` prints."""
    return {
        "a": comparison.a,
        "b": comparison.b,
        "metric": comparison.metric,
        "allowed": [{"key": one.key, "a": one.a, "b": one.b} for one in comparison.allowed],
        "caveats": [{"of": label, **caveat_json(caveat)} for label, caveat in comparison.caveats],
        "passes": [_pass(one) for one in comparison.passes],
    }


def _pass(one: PassComparison) -> dict[str, Any]:
    return {
        "workload": one.workload,
        "pass": one.pass_name,
        "pairs": one.pairs,
        "unpaired": one.unpaired,
        "failed": one.failed,
        "p50": one.p50.value,
        "p99": None if one.p99 is None else one.p99.value,
        "findings": [finding_json(finding) for finding in one.findings if math.isfinite(finding.estimate.value)],
        "moved": [
            {"repeat": row.repeat, "row": row.row, "a": row.a, "b": row.b, "attribution": row.attribution}
            for row in one.moved
        ],
    }
