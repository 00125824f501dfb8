"""What to mind about the numbers of a run: each check looks at one promise, and says where it was not kept."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from harness.analysis.finding import ScopedCaveat
from harness.analysis.group_checks import group_caveats
from harness.analysis.measured import MEASURED_PASSES, Group, measured_groups
from harness.records import Caveat, Run

ROWS = "rows"
STATE = "state_not_proved"
STATE_UNCHECKED = "state_not_checked"
ONE_REPEAT = "one_repeat"
FEW = "few_requests"
STATUS = "status"

_FEW_FOR_P99 = 100


def find_caveats(run: Run) -> tuple[ScopedCaveat, ...]:
    """Every caveat of `run`, those its run.json already holds first. docs/method.md says what each kind means."""
    groups = measured_groups(run)
    passes = run.passes.to_pandas()
    arms = {group.arm for group in groups}
    known = [_known(one, arms) for one in run.meta.get("caveats") or ()]
    of_groups = [caveat for group in groups for caveat in group_caveats(group, passes)]
    of_run = [*_status(run.meta), *_rows(run), *_states(run.meta, groups), *_one_repeat(groups), *_few(groups)]
    return (*known, *of_run, *of_groups)


def _known(one: Mapping[str, Any], arms: Collection[str]) -> ScopedCaveat:
    """A caveat that the run noted: of one arm if its text begins with the arm's name, else of all."""
    caveat = Caveat(str(one["kind"]), str(one["text"]), str(one.get("remedy") or ""))
    arm, colon, _ = caveat.text.partition(": ")
    return ScopedCaveat({"arm": arm} if colon and arm in arms else {}, caveat)


def _status(meta: Mapping[str, Any]) -> Iterator[ScopedCaveat]:
    if meta.get("status") in {"partial", "failed"}:
        text = f"the run's status is {meta['status']}: what it did not get to is in no number"
        yield ScopedCaveat({}, Caveat(STATUS, text, "mend what the errors in run.json name, and run again"))


def _rows(run: Run) -> Iterator[ScopedCaveat]:
    """Rows in = rows planned, of every pass in the plan, the unmeasured ones included."""
    planned: Mapping[str, int] = run.meta.get("planned") or {}
    keys = run.requests.select(["arm", "workload", "pass", "repeat"]).to_pandas()
    counted = keys.groupby(["arm", "workload", "pass", "repeat"], sort=False).size()
    rows = {"/".join(str(part) for part in cell): int(count) for cell, count in counted.items()}
    unplanned = [cell for cell in rows if planned and cell not in planned and cell.split("/")[2] in MEASURED_PASSES]
    for cell in (*planned, *unplanned):
        expected, found = planned.get(cell, 0), rows.get(cell, 0)
        if expected != found:
            by = dict(zip(("arm", "workload", "pass"), cell.split("/"), strict=False))
            text = f"{cell}: {expected} requests planned, {found} rows recorded"
            yield ScopedCaveat(by, Caveat(ROWS, text, "see the arm's logs"))


def _states(meta: Mapping[str, Any], groups: Sequence[Group]) -> Iterator[ScopedCaveat]:
    """Each arm x workload must have begun with caches proved cold or warm; a proof that is missing proves nothing."""
    proofs: Sequence[Mapping[str, Any]] = meta.get("state_proofs") or ()
    remedy = "reset the caches and run this arm again"
    for proof in proofs:
        if not proof["proved"]:
            where = f"{proof['arm']}, {proof['workload']}, repeat {proof['repeat']}"
            text = f"{where}: the caches were not shown to be {proof['kind']} at the start: {proof['detail']}"
            by = {"arm": str(proof["arm"]), "workload": str(proof["workload"])}
            yield ScopedCaveat(by, Caveat(STATE, text, remedy))
    checked = {(proof["arm"], proof["workload"]) for proof in proofs}
    for arm, workload in dict.fromkeys((group.arm, group.workload) for group in groups):
        if (arm, workload) not in checked:
            text = f"{arm}, {workload}: nobody checked whether the caches were cold or warm at the start"
            yield ScopedCaveat({"arm": arm, "workload": workload}, Caveat(STATE_UNCHECKED, text, remedy))


def _one_repeat(groups: Sequence[Group]) -> Iterator[ScopedCaveat]:
    once = dict.fromkeys(group.arm for group in groups if group.requests["repeat"].nunique() == 1)
    if once:
        text = f"one repeat only ({', '.join(once)}): the intervals cannot show how runs differ from one another"
        yield ScopedCaveat({}, Caveat(ONE_REPEAT, text, "run again with --repeats 5"))


def _few(groups: Sequence[Group]) -> Iterator[ScopedCaveat]:
    succeeded: dict[str, list[int]] = {}
    for group in groups:
        succeeded.setdefault(group.workload, []).append(len(group.ok))
    for workload, counts in succeeded.items():
        fewest = min((count for count in counts if count), default=_FEW_FOR_P99)
        if fewest < _FEW_FOR_P99:
            text = f"{workload}: the p99 of {fewest} requests is about the slowest one"
            yield ScopedCaveat({"workload": workload}, Caveat(FEW, text, "read p50 there, or add repeats"))
