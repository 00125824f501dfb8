"""What the servers did while a trace was replayed: requests running and waiting, bandwidth of each Valkey instance."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from harness.analysis.measured import OPEN_LOOP_PASS, FloatArray, Group, measured_groups
from harness.records import Run

RUNNING, WAITING = "running", "waiting"
_GAUGES = {"vllm:num_requests_running": RUNNING, "vllm:num_requests_waiting": WAITING}
_BYTES_OUT = "bytes_out"
_MOST_POINTS = 1_000


@dataclass(frozen=True, slots=True)
class Timeline:
    """A sampled figure of one arm during one replay (its first repeat): `t_s` after the first request was due.

    `of` is `requests` (named running or waiting) or `bandwidth` (bytes/s, named by instance). Of more than 1,000
    samples the largest of each k neighbours is there.
    """

    workload: str
    pass_name: str
    arm: str
    of: str
    name: str
    t_s: tuple[float, ...]
    values: tuple[float, ...]


def timelines(run: Run) -> tuple[Timeline, ...]:
    """The timelines of every replay; none where nothing was sampled."""
    names = pa.array([*_GAUGES, _BYTES_OUT], run.samples.schema.field("name").type)
    samples = run.samples.filter(pc.is_in(run.samples["name"], value_set=names))
    table = samples.select(["arm", "t_ns", "source", "instance", "name", "value"]).to_pandas()
    replays = [group for group in measured_groups(run) if group.pass_name == OPEN_LOOP_PASS]
    return tuple(line for group in replays for line in _of_group(group, table))


def _of_group(group: Group, table: pd.DataFrame) -> Iterator[Timeline]:
    requests = group.requests[group.requests["repeat"] == group.requests["repeat"].min()]
    begin, end = requests["due_ns"].min(), requests["done_ns"].max()
    if not begin < end:
        return
    own = table[(table["arm"] == group.arm) & (table["t_ns"] >= begin) & (table["t_ns"] <= end)]
    for name, label in _GAUGES.items():
        gauge = own[(own["source"] == "vllm") & (own["name"] == name)].groupby("t_ns")["value"].sum()
        yield from _line(group, "requests", label, (gauge.index.to_numpy() - begin) / 1e9, gauge.to_numpy())
    traffic = own[(own["source"] == "valkey") & (own["name"] == _BYTES_OUT)]
    for instance, counts in traffic.groupby("instance"):
        ordered = counts.sort_values("t_ns")
        gained, passed = np.diff(ordered["value"].to_numpy()), np.diff(ordered["t_ns"].to_numpy()) / 1e9
        good = (passed > 0) & (gained >= 0)  # a counter that goes back belongs to an instance that began anew
        t_s = (ordered["t_ns"].to_numpy()[1:] - begin) / 1e9
        yield from _line(group, "bandwidth", str(instance), t_s[good], gained[good] / passed[good])


def _line(group: Group, of: str, name: str, t_s: FloatArray, values: FloatArray) -> Iterator[Timeline]:
    good = np.isfinite(values) & np.isfinite(t_s)
    t_s, values = t_s[good], values[good]
    if len(t_s) > _MOST_POINTS:
        parts = np.array_split(np.arange(len(t_s)), _MOST_POINTS)
        largest = [part[np.argmax(values[part])] for part in parts]
        t_s, values = t_s[largest], values[largest]
    if len(t_s):
        key = (group.workload, group.pass_name, group.arm)
        yield Timeline(*key, of, name, tuple(float(t) for t in t_s), tuple(float(value) for value in values))
