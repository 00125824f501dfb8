"""Gaps between events that carried text, all gaps of all answers together."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.analysis.finding import Estimate, Finding
from harness.analysis.measured import FloatArray, Group
from harness.analysis.resample import STATISTICS, statistics_of
from harness.records import Outcome, Run

_METHOD = "exact, of all gaps; no interval: the gaps of one answer are not independent"


def itl_findings(run: Run, groups: Sequence[Group]) -> dict[tuple[str, str, str], list[Finding]]:
    """`itl_p50`, `itl_mean`, `itl_p99` of each group that has a gap, by arm, workload and pass."""
    table = run.requests.filter(pc.equal(run.requests["outcome"], Outcome.OK.value))
    found = {}
    for group in groups:
        own = pc.and_(
            pc.equal(table["arm"], group.arm),
            pc.and_(pc.equal(table["workload"], group.workload), pc.equal(table["pass"], group.pass_name)),
        )
        gaps = _gaps(table.filter(own)["itl_ms"])
        if gaps.size:
            found[group.arm, group.workload, group.pass_name] = [
                Finding(f"itl_{name}", "ms", Estimate(float(value), None, None, gaps.size, _METHOD), group.by)
                for name, value in zip(STATISTICS, statistics_of(gaps), strict=True)
            ]
    return found


def _gaps(column: pa.ChunkedArray) -> FloatArray:
    every = pc.list_flatten(column).to_numpy().astype(np.float64)
    finite: FloatArray = every[np.isfinite(every)]
    return finite
