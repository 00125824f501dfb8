"""A run against a baseline run: paired by trace row where the plans match, else by the figures alone."""

from collections.abc import Iterable, Iterator, Sequence

from harness.analysis.checks import find_caveats
from harness.analysis.finding import ScopedCaveat
from harness.analysis.group_checks import UNSTABLE
from harness.analysis.measured import Group, measured_groups
from harness.analysis.must_match import arm_identity, identity, mismatches, refuse
from harness.analysis.pairs import ArmOf, Pairs, paired
from harness.analysis.resample import RESAMPLES, Latency, latency
from harness.analysis.ruling import FEWEST_FOR_P50, FEWEST_FOR_P99, Check, Gate, Ruling, rule, rule_failures
from harness.records import Run

_ANOTHER_SEED = 1  # arms that are not paired must not be resampled at the same positions


def gate_on_baseline(
    run: Run,
    baseline: Run,
    limit: float,
    metric: str = "ttft_ms",
    allow: Sequence[str] = (),
    resamples: int = RESAMPLES,
) -> Gate:
    """Every arm, workload and pass of `baseline` must be there in `run`, and no slower than the limit allows.

    Raises IncomparableError where the two are not the same measurement; `--allow plan` compares other plans unpaired.
    """
    where = f"{run.folder} and {baseline.folder}"
    old, new = ({(g.arm, g.workload, g.pass_name): g for g in measured_groups(one)} for one in (baseline, run))
    arms = dict.fromkeys(arm for arm, _, _ in old if any(arm == other for other, _, _ in new))
    ours, theirs = ({**identity(one.meta), **_arms(one, arms)} for one in (run, baseline))
    allowed = refuse(mismatches(theirs, ours), allow, where)
    same_plan = not any(one.key.startswith("plan.") for one in allowed)
    notes = [f"allowed to differ: {one}" for one in allowed]
    checks: list[Check] = []
    for key, group in old.items():
        if key not in new:
            checks.append(Check(group.by, "missing", Ruling.NOISY, "the baseline has it, this run has not"))
            continue
        checks += _failures(new[key], group)
    for arm in arms:
        for pairs in paired(ArmOf(baseline, arm, arm), ArmOf(run, arm, arm), metric):
            checks += _latencies(pairs, arm, metric, limit, resamples, same_plan=same_plan)
    notes += [*_unjudged(checks, old.values()), *unsteady(find_caveats(run))]
    return Gate(str(run.folder), str(baseline.folder), limit, tuple(checks), tuple(notes))


def unsteady(caveats: Iterable[ScopedCaveat]) -> list[str]:
    """What to mind about a p50: the arms whose queue grew, which leaves it to the trace's length."""
    return list(dict.fromkeys(one.caveat.text for one in caveats if one.caveat.kind == UNSTABLE))


def _arms(run: Run, arms: Iterable[str]) -> dict[str, object]:
    return {f"{key}.{arm}": value for arm in arms for key, value in arm_identity(run.meta, arm).items()}


def _failures(new: Group, old: Group) -> Iterator[Check]:
    counts = [(len(one.requests) - len(one.ok), len(one.requests)) for one in (new, old)]
    ruling, text = rule_failures(*counts[0], *counts[1])
    yield Check(old.by, "failures", ruling, text)


def _latencies(
    pairs: Pairs, arm: str, metric: str, limit: float, resamples: int, *, same_plan: bool
) -> Iterator[Check]:
    by = {"arm": arm, "workload": pairs.workload, "pass": pairs.pass_name}
    name = metric.removesuffix("_ms")
    old = latency(pairs.values("a"), resamples)
    new = latency(pairs.values("b"), resamples, seed=0 if same_plan else _ANOTHER_SEED)
    if old is None:
        return
    if new is None:
        yield Check(by, name, Ruling.REGRESSED, "not one request of this run succeeded where the baseline's did")
        return
    for statistic in _statistics(new):
        ratio = new.ratio(old, statistic)
        ruling, text = rule(ratio, limit)
        yield Check(by, f"{name}_{statistic}", ruling, text, ratio)


def _statistics(measured: Latency) -> list[str]:
    fewest = {"p50": FEWEST_FOR_P50, "p99": FEWEST_FOR_P99}
    return [statistic for statistic, least in fewest.items() if measured.n >= least]


def _unjudged(checks: Sequence[Check], groups: Iterable[Group]) -> list[str]:
    judged = [check.by for check in checks if check.name != "failures"]
    labels = [group.label for group in groups if group.by not in judged]
    return [f"times not judged, fewer than {FEWEST_FOR_P50} pairs: {', '.join(labels)}"] if labels else []
