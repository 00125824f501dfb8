"""Which arms are compared to answer whether the remote tier pays, and how each stands beside recompute.

An arm with a remote tier is `better` or `worse` than recompute only if the run shows it: the 95 % interval of the ratio
of p99 TTFT lies on one side of 1, p50 does not say the opposite, the queue does not grow, and nothing was lost that
would bend the comparison.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.analysis.checks import ROWS, STATE
from harness.analysis.finding import Estimate, Finding, ScopedCaveat
from harness.analysis.group_checks import UNSTABLE
from harness.analysis.measured import OPEN_LOOP_PASS
from harness.analysis.roles import host_arm, recompute_arm, remote_arms
from harness.model.verdict import Word

_REMOTE, _HOST = ("l2", "l1_and_l2"), ("l1",)
"""Lookups by where their hits were (analysis.lookups)."""


class Standing(StrEnum):
    """An arm with a remote tier beside recompute."""

    BETTER = "better"
    WORSE = "worse"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Side:
    """One arm in the judged pass. `numbers` are its findings by name, those of the arm as a whole included.

    `blockers` say why it cannot be judged, `faults` name what its log tells of.
    """

    arm: str
    instances: int
    numbers: Mapping[str, Estimate]
    rising: bool
    blockers: tuple[str, ...]
    faults: tuple[str, ...] = ()

    def value(self, name: str) -> float | None:
        """The value of the finding `name`, or None if it was not measured."""
        return self.numbers[name].value if name in self.numbers else None

    @property
    def used_remote(self) -> bool | None:
        """Whether a hit came from the remote tier, by LMCache's log, else by GETs there; None: nobody tells."""
        if self.value("external_prefix_cache_hits") == 0:
            return False
        remote, host = (any(self.value(f"lookup_{name}") for name in names) for names in (_REMOTE, _HOST))
        if remote or host:
            return remote
        gets = self.value("valkey_get_calls")
        return None if gets is None else gets > 0

    @property
    def failed_share(self) -> float:
        """Failures as a share of the planned requests."""
        return (self.value("failures") or 0.0) / (self.value("requests") or 1.0)


@dataclass(frozen=True, slots=True)
class Contest:
    """What the verdict is about: the judged workload and pass, recompute (None: not measured) and the remote arms.

    `host` has LMCache and no Valkey behind it: it is not judged, but it is what a remote tier must be held against too.
    """

    workload: str
    pass_name: str
    recompute: Side | None
    remotes: tuple[Side, ...]
    host: Side | None = None


def find_contest(
    findings: Sequence[Finding], caveats: Sequence[ScopedCaveat], meta: Mapping[str, Any]
) -> Contest | None:
    """The sides of the first trace replay among `findings`, else of the last measured pass; None if nothing was."""
    passes = list(dict.fromkeys((f.by["workload"], f.by["pass"]) for f in findings if "pass" in f.by))
    if not passes:
        return None
    workload, name = next((one for one in passes if one[1] == OPEN_LOOP_PASS), passes[-1])

    def side(arm: str, instances: int) -> Side:
        by = {"arm": arm, "workload": workload, "pass": name}
        numbers = {f.name: f.estimate for f in findings if f.by and f.by.items() <= by.items()}
        own = [scoped.caveat for scoped in caveats if scoped.by and scoped.concerns(by)]
        blockers = tuple(caveat.text for caveat in own if caveat.kind in {ROWS, STATE})
        faults = tuple(dict.fromkeys(caveat.kind for caveat in own if caveat.evidence))
        return Side(arm, instances, numbers, any(caveat.kind == UNSTABLE for caveat in own), blockers, faults)

    base = recompute_arm(meta)
    recompute = side(base, 0) if base is not None else None
    if recompute is not None and "ttft_p99" not in recompute.numbers:
        recompute = None
    beside = host_arm(meta)
    host = None if beside is None else side(beside, 0)
    remotes = tuple(side(arm, n) for arm, n in remote_arms(meta).items())
    return Contest(workload, name, recompute, remotes, host if host and "ttft_p99_ratio" in host.numbers else None)


def standing(remote: Side, recompute: Side) -> Standing:
    """Where `remote` stands beside `recompute`; the arm that failed more requests cannot win, nor one without hits."""
    p99, p50 = (shown(remote.numbers.get(f"ttft_{name}_ratio")) for name in ("p99", "p50"))
    if remote.blockers or recompute.blockers or "ttft_p99_ratio" not in remote.numbers:
        return Standing.UNCLEAR
    grows = remote.rising and not recompute.rising
    lost = remote.failed_share > recompute.failed_share
    if p99 < 0 and p50 <= 0 and not (grows or lost or remote.used_remote is False):
        return Standing.BETTER
    worse = p99 > 0 or (p99 == 0 and (p50 > 0 or grows))
    return Standing.WORSE if worse and remote.failed_share >= recompute.failed_share else Standing.UNCLEAR


def word(contest: Contest | None) -> Word:
    """`on` if one instance is better than recompute; `on_with_sharding` if only several are; `off` if all are worse."""
    if contest is None or contest.recompute is None or not contest.remotes:
        return Word.UNDECIDED
    stands = [(remote.instances, standing(remote, contest.recompute)) for remote in contest.remotes]
    better = [instances for instances, stand in stands if stand is Standing.BETTER]
    if better:
        return Word.ON if min(better) == 1 else Word.ON_WITH_SHARDING
    return Word.OFF if all(stand is Standing.WORSE for _, stand in stands) else Word.UNDECIDED


def shown(ratio: Estimate | None) -> int:
    """-1 if the ratio is shown to be below 1, 1 if above, 0 if not shown to differ."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return 0
    return -1 if ratio.high < 1 else 1 if ratio.low > 1 else 0
