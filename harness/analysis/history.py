"""A run as lines of the history, and a run against the nights before it."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.analysis.must_match import arm_identity, identity, mismatches
from harness.analysis.nights import judge_nights
from harness.analysis.ruling import FEWEST_FOR_P50, FEWEST_FOR_P99, Check, Gate, Ruling, rule_failures
from harness.analysis.summary import Summary
from harness.records import Run

Line = Mapping[str, Any]
_KEY = ("arm", "workload", "pass")
_OF_AN_ARM = set(_KEY)


def history_lines(run: Run, summary: Summary) -> list[dict[str, Any]]:
    """A line for each finding of an arm, workload and pass; `identity` is what must match, as JSON."""
    of_run = {"run_id": str(run.meta.get("run_id")), "utc": str(run.meta.get("utc")), "folder": str(run.folder)}
    experiment = str(run.meta.get("experiment"))
    identities = {
        arm: json.dumps({**identity(run.meta), **arm_identity(run.meta, arm)}, sort_keys=True)
        for arm in dict.fromkeys(f.by["arm"] for f in summary.findings if "arm" in f.by)
    }
    return [
        {
            **of_run,
            "experiment": experiment,
            "verdict": summary.verdict.word.value,
            **{key: finding.by[key] for key in _KEY},
            "name": finding.name,
            "unit": finding.unit,
            "value": finding.estimate.value,
            "low": finding.estimate.low,
            "high": finding.estimate.high,
            "n": finding.estimate.n,
            "identity": identities[finding.by["arm"]],
        }
        for finding in summary.findings
        if finding.by.keys() == _OF_AN_ARM and math.isfinite(finding.estimate.value)
    ]


def gate_on_history(
    tonight: Sequence[Line],
    before: Sequence[Line],
    limit: float,
    nights: int,
    allow: Sequence[str] = (),
    mind: Sequence[str] = (),
) -> Gate:
    """`tonight`'s lines against those of the last `nights` runs of the experiment in `before`; `mind` are more notes.

    Nights of another plan, model, version, engine or machine are left out and named, unless `allow` covers the key.
    """
    experiment = tonight[0]["experiment"] if tonight else ""
    run = tonight[0]["run_id"] if tonight else ""
    past = [line for line in before if line["experiment"] == experiment and line["run_id"] != run]
    past = [line for line in past if not tonight or line["utc"] < tonight[0]["utc"]]
    last = sorted({(line["utc"], line["run_id"]) for line in past})[-nights:]
    notes: dict[str, None] = {}
    checks: list[Check] = []
    cells = dict.fromkeys(_cell(line) for line in (*tonight, *past))
    for cell in cells:
        own = {line["name"]: line for line in tonight if _cell(line) == cell}
        of_cell = [line for line in past if _cell(line) == cell and (line["utc"], line["run_id"]) in last]
        by = dict(zip(_KEY, cell, strict=True))
        if not own:
            if of_cell:
                checks.append(Check(by, "missing", Ruling.NOISY, "nights before had it, tonight has not"))
            continue
        alike, left_out = _alike(of_cell, next(iter(own.values())), allow)
        notes |= dict.fromkeys(left_out)
        checks += _checks(by, own, alike, limit)
    against = f"the {len(last)} run(s) before it"
    return Gate(str(run), against, limit, tuple(checks), (*notes, *mind))


def _checks(by: Mapping[str, str], own: Mapping[str, Line], past: Sequence[Line], limit: float) -> Iterator[Check]:
    for name, fewest in (("ttft_p50", FEWEST_FOR_P50), ("ttft_p99", FEWEST_FOR_P99)):
        series = [line for line in sorted(past, key=lambda line: str(line["utc"])) if line["name"] == name]
        if name not in own:
            if series and name == "ttft_p50":
                yield Check(by, name, Ruling.REGRESSED, "not one request succeeded tonight; nights before had some")
            continue
        values = [float(line["value"]) for line in (*series, own[name])]
        if own[name]["n"] >= fewest and all(math.isfinite(value) and value > 0 for value in values):
            judged = judge_nights(values, limit)
            since = "" if judged.since is None else f" (since {[*series, own[name]][judged.since]['utc']})"
            yield Check(by, name, judged.ruling, judged.text + since, judged.ratio)
    counts = [_sum(past, name) for name in ("failures", "requests")]
    if counts[1] and "failures" in own:
        ruling, text = rule_failures(int(own["failures"]["value"]), int(own["requests"]["value"]), *counts)
        yield Check(by, "failures", ruling, text)


def _alike(past: Sequence[Line], own: Line, allow: Sequence[str]) -> tuple[list[Line], list[str]]:
    """The lines that may be compared with `own`, and a sentence for each reason to leave others out."""
    mine, alike = json.loads(own["identity"]), []
    reasons: dict[str, set[str]] = {}
    for line in past:
        found = mismatches(json.loads(line["identity"]), mine)
        keys = [one for one in found if not any(one.key == key or one.key.startswith(f"{key}.") for key in allow)]
        if keys:
            reasons.setdefault(str(keys[0]), set()).add(line["run_id"])
        else:
            alike.append(line)
    return alike, [f"{len(runs)} run(s) left out, {key}" for key, runs in reasons.items()]


def _cell(line: Line) -> tuple[str, str, str]:
    return (line["arm"], line["workload"], line["pass"])


def _sum(lines: Sequence[Line], name: str) -> int:
    return int(sum(line["value"] for line in lines if line["name"] == name))
