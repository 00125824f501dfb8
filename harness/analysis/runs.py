"""Many runs at a glance: of each its state, its verdict and the p99 TTFT of every arm."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.measured import OPEN_LOOP_PASS


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run folder. `p99_ms` is by arm, of the pass the verdict is about; `trouble` says why there is no more.

    `gate` is the ruling on a nightly run.
    """

    folder: str
    experiment: str
    utc: str
    status: str
    verdict: str = ""
    sentence: str = ""
    p99_ms: Mapping[str, float] | None = None
    caveats: int = 0
    has_report: bool = False
    gate: str = ""
    trouble: str = ""


def run_line(
    folder: str,
    meta: Mapping[str, Any],
    summary: Mapping[str, Any] | None,
    gate: Mapping[str, Any] | None,
    *,
    has_report: bool,
) -> RunLine:
    """The line of a run, from its run.json, its summary.json and its gate.json (None: not there)."""
    verdict: Mapping[str, Any] = (summary or {}).get("verdict") or {}
    return RunLine(
        folder=folder,
        experiment=str(meta.get("experiment", "")),
        utc=str(meta.get("utc", "")),
        status=str(meta.get("status", "unknown")),
        verdict=str(verdict.get("word", "")),
        sentence=str(verdict.get("sentence", "")),
        p99_ms=_p99((summary or {}).get("findings") or ()),
        caveats=len((summary or {}).get("caveats") or ()),
        has_report=has_report,
        gate=str((gate or {}).get("ruling", "")),
        trouble="" if summary is not None else "no summary.json: kvreplay report makes it",
    )


def newest_first(lines: Sequence[RunLine]) -> dict[str, list[RunLine]]:
    """The lines by experiment, newest first; the experiment that ran last comes first."""
    found: dict[str, list[RunLine]] = {}
    for line in sorted(lines, key=lambda line: (line.utc, line.folder), reverse=True):
        found.setdefault(line.experiment, []).append(line)
    return found


def _p99(findings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    own = [one for one in findings if one["name"] == "ttft_p99" and set(one["by"]) == {"arm", "workload", "pass"}]
    cells = list(dict.fromkeys((one["by"]["workload"], one["by"]["pass"]) for one in own))
    if not cells:
        return {}
    judged = next((cell for cell in cells if cell[1] == OPEN_LOOP_PASS), cells[-1])
    return {
        one["by"]["arm"]: float(one["value"])
        for one in own
        if (one["by"]["workload"], one["by"]["pass"]) == judged
        if one["value"] is not None and math.isfinite(one["value"])
    }
