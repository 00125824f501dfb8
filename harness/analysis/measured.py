"""The measured part of a run: requests by arm, workload and pass. Warm-ups, probes and prewarms stay outside."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.records import Outcome, Run

FloatArray = npt.NDArray[np.float64]

MEASURED_PASSES = ("first", "again", "reverse", "replay")
OPEN_LOOP_PASS = "replay"  # noqa: S105 - a pass of a workload, not a password
_LONG = {"chunk_ns", "itl_ms", "output_text"}  # lists and texts, which only few readers need


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The planned requests of one arm, workload and pass: one row each, by repeat and seq, failed ones included."""

    arm: str
    workload: str
    pass_name: str
    requests: pd.DataFrame

    @property
    def by(self) -> dict[str, str]:
        """The key of this group's findings."""
        return {"arm": self.arm, "workload": self.workload, "pass": self.pass_name}

    @property
    def label(self) -> str:
        """The group as people read it: arm, workload/pass."""
        return f"{self.arm}, {self.workload}/{self.pass_name}"

    @property
    def ok(self) -> pd.DataFrame:
        """The requests that succeeded."""
        return self.requests[self.requests["outcome"] == Outcome.OK.value]

    def by_repeat(self, column: str) -> tuple[FloatArray, ...]:
        """`column` in order of seq, one array a repeat; NaN for a request that failed or has no such finite value."""
        values = self.requests[column].to_numpy(dtype=np.float64, na_value=np.nan)
        told = (self.requests["outcome"] == Outcome.OK.value).to_numpy() & np.isfinite(values)
        known = pd.Series(np.where(told, values, np.nan), self.requests.index)
        return tuple(part.to_numpy() for _, part in known.groupby(self.requests["repeat"], sort=True))


def measured_groups(run: Run) -> tuple[Group, ...]:
    """Every measured arm x workload x pass of `run`, in the order in which the table first names it."""
    table = run.requests.select([name for name in run.requests.column_names if name not in _LONG]).to_pandas()
    measured = table[table["pass"].isin(MEASURED_PASSES)]
    return tuple(
        Group(str(arm), str(workload), str(name), rows.sort_values(["repeat", "seq"]))
        for (arm, workload, name), rows in measured.groupby(["arm", "workload", "pass"], sort=False)
    )
