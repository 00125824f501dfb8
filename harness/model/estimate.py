"""A number that says how sure it is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """`value`, its 95 % interval (`low`, `high`; both None where none can be told), how many values it is of, how."""

    value: float
    low: float | None
    high: float | None
    n: int
    method: str
