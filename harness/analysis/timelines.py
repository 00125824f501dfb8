"""What the servers did while a trace was replayed: requests running and waiting, bandwidth of each Valkey instance."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from harness.analysis.counters import gained
from harness.analysis.measured import OPEN_LOOP_PASS, FloatArray, Group, measured_groups
from harness.records import Run

RUNNING, WAITING = "running", "waiting"
_GAUGES = {"vllm:num_requests_running": RUNNING, "vllm:num_requests_waiting": WAITING}
_BYTES_OUT = "bytes_out"
_MOST_POINTS = 1_000
_MOST_WINDOWS, _SHORTEST_NS = 60, 2_000_000_000  # a sample alone shows how full a socket's buffer was


@dataclass(frozen=True, slots=True)
class Timeline:
    """A sampled figure of one arm during one replay (its first repeat): `t_s` after the first request was due.

    `of` is `requests` (named running or waiting), as sampled; of more than 1,000 samples the largest of each k
    neighbours is there. Or it is `bandwidth` (bytes/s, named by instance): means over windows, at their middle.
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
    of_arm = table[table["arm"] == group.arm]
    own = of_arm[(of_arm["t_ns"] >= begin) & (of_arm["t_ns"] <= end)]
    for name, label in _GAUGES.items():
        gauge = own[(own["source"] == "vllm") & (own["name"] == name)].groupby("t_ns")["value"].sum()
        yield from _line(group, "requests", label, (gauge.index.to_numpy() - begin) / 1e9, gauge.to_numpy())
    traffic = of_arm[(of_arm["source"] == "valkey") & (of_arm["name"] == _BYTES_OUT)]
    edges = np.linspace(begin, end, 1 + max(1, min(_MOST_WINDOWS, int((end - begin) / _SHORTEST_NS))))
    for instance, counts in traffic.groupby("instance"):
        ordered = counts[np.isfinite(counts["value"])].sort_values("t_ns")
        sent = gained(ordered["t_ns"].to_list(), ordered["value"].to_list(), [int(edge) for edge in edges]).per_window
        middle_s = ((edges[1:] + edges[:-1]) / 2 - begin) / 1e9
        yield from _line(group, "bandwidth", str(instance), middle_s, sent / (np.diff(edges) / 1e9))


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
