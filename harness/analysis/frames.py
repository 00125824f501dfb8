"""A run as pandas frames, for notebooks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.records import Run


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """run.json as `meta`, and the four tables with the columns of contract.md.

    `requests` gains `due_s`: seconds after the first request of its arm, workload, pass and repeat was due.
    """

    meta: Mapping[str, Any]
    requests: pd.DataFrame
    loads: pd.DataFrame
    samples: pd.DataFrame
    passes: pd.DataFrame


def frames_of(run: Run) -> Frames:
    """The frames of `run`; what did not happen is NaN or None."""
    requests = run.requests.to_pandas()
    first = requests.groupby(["arm", "workload", "pass", "repeat"], dropna=False)["due_ns"].transform("min")
    requests = requests.assign(due_s=(requests["due_ns"] - first) / 1e9)
    return Frames(run.meta, requests, run.loads.to_pandas(), run.samples.to_pandas(), run.passes.to_pandas())
