"""A finding: a number with its unit, its uncertainty, what it belongs to, and what to mind about it."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.estimate import Estimate
from harness.records import Caveat

__all__ = ["Estimate", "Finding", "ScopedCaveat"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One reported number. `by` says of what: keys out of arm, workload, pass.

    A score also has kind and tokens. docs/method.md defines each `name`.
    """

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
