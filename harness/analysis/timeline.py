"""One arm on one time axis: what ran and waited, what was loaded, how busy the engine was, and each TTFT."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.counters import FloatArray, gained, last_in_window, mean_in_window
from harness.analysis.spans import in_flight
from harness.errors import RunFolderError
from harness.records import Run

_MOST_WINDOWS = 120
_COMPUTED = "vllm:prompt_tokens_by_source_total"


@dataclass(frozen=True, slots=True)
class Series:
    """A figure by window; `instance` says of which server or process. None: not known in that window."""

    name: str
    unit: str
    instance: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A request by the time it was sent: its TTFT (ms), and where most of its prompt came from."""

    t_s: float
    ttft_ms: float
    came_from: str
    workload: str
    pass_name: str
    repeat: int
    seq: int


@dataclass(frozen=True, slots=True)
class PassSpan:
    """When a pass was sent, from its first request to its last answer (s)."""

    workload: str
    pass_name: str
    repeat: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """An arm from its first request on. Windows are `window_s` long and begin at 0, `zero_ns` after the run's origin.

    `resets` are counters that went back to nothing: (source and instance, at s).
    """

    arm: str
    zero_ns: int
    window_s: float
    windows: int
    passes: tuple[PassSpan, ...]
    series: tuple[Series, ...]
    points: tuple[Point, ...]
    resets: tuple[tuple[str, float], ...]


def timeline(run: Run, arm: str, window_s: float | None = None) -> Timeline:
    """The timeline of `arm`, in windows of `window_s` (by default whole seconds, at most 120 of them).

    Raises RunFolderError where the run has no request of that arm that was sent.
    """
    requests = run.requests.drop_columns(["chunk_ns", "itl_ms", "output_text"]).to_pandas()
    requests = requests[(requests["arm"] == arm) & requests["sent_ns"].notna()]
    if requests.empty:
        arms = ", ".join(dict.fromkeys(run.requests["arm"].to_pylist()))
        raise RunFolderError(
            f"no request was sent to an arm {arm!r}", where=str(run.folder), remedy=f"its arms are: {arms or 'none'}"
        )
    zero_ns = int(requests["sent_ns"].min())
    span_s = (int(requests["done_ns"].max()) - zero_ns) / 1e9
    width_s = window_s or max(1.0, math.ceil(span_s / _MOST_WINDOWS))
    windows = max(1, math.ceil(span_s / width_s))
    edges = [zero_ns + round(at * width_s * 1e9) for at in range(windows + 1)]
    samples = run.samples.to_pandas()
    seen = _Samples(samples[samples["arm"] == arm], edges, zero_ns)
    rate = (run.meta.get("probe") or {}).get("prefill_tokens_per_s")
    series = [
        *seen.gauges(),
        *_loads(run, arm, edges, int(requests["t0_unix_ns"].iloc[0])),
        *seen.links(width_s),
        *seen.busy(rate, width_s),
        *seen.processors(),
    ]
    return Timeline(
        arm,
        zero_ns,
        width_s,
        windows,
        _passes(requests, zero_ns),
        tuple(series),
        _points(requests, zero_ns),
        seen.resets,
    )


def to_json(timeline: Timeline) -> dict[str, Any]:
    """`timeline` as one JSON document: only dicts, lists, strings, finite numbers and null."""
    return asdict(timeline)


class _Samples:
    """The samples of one arm, by source, instance and series, laid over windows."""

    def __init__(self, samples: pd.DataFrame, edges: Sequence[int], zero_ns: int) -> None:
        self._edges, self._zero_ns = edges, zero_ns
        self._resets: dict[tuple[str, float], None] = {}
        self._groups: dict[tuple[str, str, str], list[tuple[dict[str, str], pd.DataFrame]]] = {}
        keys = pd.Series([json.dumps(dict(labels or ()), sort_keys=True) for labels in samples["labels"]], dtype="str")
        keyed = samples.assign(key=keys.to_numpy())
        for (source, instance, name, key), rows in keyed.groupby(["source", "instance", "name", "key"], sort=False):
            ordered = rows.sort_values("t_ns")
            self._groups.setdefault((str(source), str(instance), str(name)), []).append((json.loads(str(key)), ordered))

    @property
    def resets(self) -> tuple[tuple[str, float], ...]:
        return tuple(self._resets)

    def gauges(self) -> Iterator[Series]:
        for name, series, unit in (
            ("running", "vllm:num_requests_running", "requests"),
            ("waiting", "vllm:num_requests_waiting", "requests"),
            ("kv_cache_usage", "vllm:kv_cache_usage_perc", "share"),
        ):
            values = [self._last(rows) for _, rows in self._of("vllm", series)]
            if values:
                yield Series(name, unit, "vllm", _cells(np.sum(values, axis=0)))

    def links(self, width_s: float) -> Iterator[Series]:
        for (source, instance, name), groups in self._groups.items():
            if source == "valkey" and name == "bytes_out":
                rate = self._gained(f"{source} {instance}", groups[0][1]) / width_s
                yield Series("valkey_bytes_per_s", "bytes/s", instance, _cells(rate))

    def busy(self, prefill_tokens_per_s: float | None, width_s: float) -> Iterator[Series]:
        """Useful time, and beside it what the processors say of themselves."""
        computed = [
            self._gained("vllm", rows)
            for labels, rows in self._of("vllm", _COMPUTED)
            if labels.get("source") == "local_compute"
        ]
        if computed and prefill_tokens_per_s:
            share = np.sum(computed, axis=0) / prefill_tokens_per_s / width_s
            yield Series("engine_busy_share", "share", "vllm", _cells(share))

    def processors(self) -> Iterator[Series]:
        for (source, instance, name), groups in self._groups.items():
            if source == "host" and name == "cpu_percent":
                yield Series("cpu_percent", "%", instance, _cells(self._last(groups[0][1])))
            elif source == "host" and name == "process_cpu_percent" and instance == "vllm":
                names = [labels.get("process", instance) for labels, _ in groups]
                for process, (labels, rows) in zip(names, groups, strict=True):
                    whose = process if names.count(process) == 1 else f"{process} {labels.get('pid', '')}"
                    yield Series("cpu_percent", "%", whose, _cells(self._last(rows)))
            elif source == "gpu" and name == "utilization_percent":
                yield Series("gpu_utilization_percent", "%", instance, _cells(self._last(groups[0][1])))

    def _of(self, source: str, name: str) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
        for (its_source, _, its_name), groups in self._groups.items():
            if (its_source, its_name) == (source, name):
                yield from groups

    def _last(self, rows: pd.DataFrame) -> FloatArray:
        return last_in_window(rows["t_ns"].tolist(), rows["value"].tolist(), self._edges)

    def _gained(self, of: str, rows: pd.DataFrame) -> FloatArray:
        found = gained(rows["t_ns"].tolist(), rows["value"].tolist(), self._edges)
        self._resets.update(dict.fromkeys((of, (t_ns - self._zero_ns) / 1e9) for t_ns in found.resets_ns))
        return found.per_window


def _loads(run: Run, arm: str, edges: Sequence[int], t0_unix_ns: int) -> Iterator[Series]:
    """Lookups and loads that LMCache's log has a time for, on the way at once: the mean over each window."""
    loads = run.loads.to_pandas()
    loads = loads[(loads["arm"] == arm) & loads["kind"].isin(["prefetch", "load"]) & loads["cost_ms"].notna()]
    for kind, name in (("prefetch", "lookups_in_flight"), ("load", "loads_in_flight")):
        rows = loads[loads["kind"] == kind]
        if len(rows):
            ends = rows["t_unix_ns"].to_numpy(dtype=np.int64) - t0_unix_ns
            starts = ends - (rows["cost_ms"].to_numpy(dtype=np.float64) * 1e6).astype(np.int64)
            times, running = in_flight(list(zip(starts.tolist(), ends.tolist(), strict=True)))
            yield Series(name, "loads", "lmcache", _cells(mean_in_window(times.tolist(), running.tolist(), edges)))


def _points(requests: pd.DataFrame, zero_ns: int) -> tuple[Point, ...]:
    rows = requests[requests["ttft_ms"].notna()].sort_values("sent_ns")
    return tuple(
        Point(
            t_s=(int(row["sent_ns"]) - zero_ns) / 1e9,
            ttft_ms=float(row["ttft_ms"]),
            came_from=came_from(row),
            workload=str(row["workload"]),
            pass_name=str(row["pass"]),
            repeat=int(row["repeat"]),
            seq=int(row["seq"]),
        )
        for row in rows.to_dict("records")
    )


def came_from(row: Mapping[Any, Any]) -> str:
    """Where the larger part of a prompt's cached tokens came from: gpu, l1, l2, lmcache (tier not told), recomputed.

    `unknown` if the server did not say how much was cached, or nobody which cache it was.
    """
    if _missing(row["cached_tokens"]):
        return "unknown"
    if row["cached_tokens"] == 0:
        return "recomputed"
    if _missing(row["local_cached_tokens"]) or _missing(row["external_cached_tokens"]):
        return "unknown"
    if row["local_cached_tokens"] >= row["external_cached_tokens"]:
        return "gpu"
    keys = {"l1": row["loaded_l1_keys"], "l2": row["loaded_l2_keys"]}
    told = {tier: count for tier, count in keys.items() if not _missing(count)}
    return max(told, key=lambda tier: told[tier]) if told else "lmcache"


def _passes(requests: pd.DataFrame, zero_ns: int) -> tuple[PassSpan, ...]:
    spans = []
    for (workload, name, repeat), rows in requests.groupby(["workload", "pass", "repeat"], sort=False):
        start, end = int(rows["sent_ns"].min()), int(rows["done_ns"].max())
        spans.append(
            PassSpan(str(workload), str(name), int(str(repeat)), (start - zero_ns) / 1e9, (end - zero_ns) / 1e9)
        )
    return tuple(sorted(spans, key=lambda span: span.start_s))


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _cells(values: FloatArray) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(value) else float(value) for value in values)
