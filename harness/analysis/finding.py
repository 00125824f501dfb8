"""A finding: a number with its unit, its uncertainty, what it belongs to, and what to mind about it."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.records import Caveat


@dataclass(frozen=True, slots=True)
class Estimate:
    """`value`, its 95 % interval (`low`, `high`; both None where none can be told), how many values it is of, how."""

    value: float
    low: float | None
    high: float | None
    n: int
    method: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One reported number. `by` says of what: keys out of arm, workload, pass. docs/method.md defines each `name`."""

    name: str
    unit: str
    estimate: Estimate
    by: Mapping[str, str]
    caveats: tuple[Caveat, ...] = ()


@dataclass(frozen=True, slots=True)
class ScopedCaveat:
    """A caveat and what it is about: every finding whose `by` has all of these keys and values. Empty: the run."""

    by: Mapping[str, str]
    caveat: Caveat

    def concerns(self, by: Mapping[str, str]) -> bool:
        """Whether a number that belongs to `by` must carry this caveat."""
        return self.by.items() <= by.items()
