"""Two arms side by side, request by request: the same trace row of the same workload, pass and repeat."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.analysis.measured import FloatArray, Group, measured_groups
from harness.errors import IncomparableError
from harness.records import Run

_KEY = ["repeat", "row"]
METRICS = ("ttft_ms", "ttft_due_ms", "tpot_ms", "e2el_ms", "send_lag_ms", "queue_ms", "load_ms", "recompute_ms")
"""The columns of requests.parquet that can be compared: times, less is better."""
ATTRIBUTION = (
    *("cached_tokens", "external_cached_tokens"),
    *("queue_ms", "load_wait_ms", "load_ms", "recompute_ms", "delivery_ms", "unexplained_ms"),
)


@dataclass(frozen=True, slots=True)
class ArmOf:
    """One arm of a run; `label` is how it was asked for."""

    run: Run
    arm: str
    label: str

    def groups(self) -> dict[tuple[str, str], Group]:
        """Its measured passes by workload and pass. Raises IncomparableError if the run has no such arm."""
        of_run = measured_groups(self.run)
        own = {(group.workload, group.pass_name): group for group in of_run if group.arm == self.arm}
        if not own:
            arms = ", ".join(dict.fromkeys(group.arm for group in of_run)) or "none"
            raise IncomparableError(
                f"no measured request of an arm {self.arm!r}",
                where=str(self.run.folder),
                remedy=f"name one of its arms: {arms}",
            )
        return own


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The rows of one workload and pass that both arms planned; NaN in `a` and `b` where either failed.

    `table` has a line a pair, in order of repeat and seq: repeat, row, seq, a, b, and the attribution columns of both
    with the suffixes _a and _b. `unpaired` counts the planned rows that only one side has.
    """

    workload: str
    pass_name: str
    table: pd.DataFrame
    unpaired: int

    def values(self, side: str) -> tuple[FloatArray, ...]:
        """Side `a` or `b`, one array a repeat, in order of seq."""
        return tuple(rows[side].to_numpy(dtype=np.float64) for _, rows in self.table.groupby("repeat", sort=True))

    @property
    def whole(self) -> pd.DataFrame:
        """The pairs in which both succeeded and have the metric."""
        return self.table.dropna(subset=["a", "b"])


def paired(a: ArmOf, b: ArmOf, metric: str) -> Iterator[Pairs]:
    """The pairs of every workload and pass that both arms ran. Raises IncomparableError if there is none."""
    of_a, of_b = a.groups(), b.groups()
    common = [key for key in of_a if key in of_b]
    if not common:
        raise IncomparableError(
            "the two have no workload and pass in common",
            where=f"{a.label} and {b.label}",
            remedy="compare arms that ran the same workload",
        )
    for workload, name in common:
        left, right = (_side(group, metric) for group in (of_a[workload, name], of_b[workload, name]))
        table = left.merge(right.drop(columns="seq"), on=_KEY, suffixes=("_a", "_b"))
        table = table.sort_values(["repeat", "seq"], ignore_index=True)
        failed = table["value_a"].isna() | table["value_b"].isna()
        table = table.assign(a=table["value_a"].mask(failed), b=table["value_b"].mask(failed))
        yield Pairs(workload, name, table, len(left) + len(right) - 2 * len(table))


def _side(group: Group, metric: str) -> pd.DataFrame:
    columns = [name for name in ATTRIBUTION if name in group.requests.columns]
    values = np.concatenate([np.empty(0), *group.by_repeat(metric)])  # as the rows are: by repeat and seq
    return group.requests[[*_KEY, "seq", *columns]].assign(value=values).drop_duplicates(_KEY)
