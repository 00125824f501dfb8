"""What each arm did: requests, latencies, throughput, cache hits, stability, and its TTFT beside that of recompute."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from harness.analysis.finding import Estimate, Finding
from harness.analysis.inter_token import itl_findings
from harness.analysis.measured import OPEN_LOOP_PASS, FloatArray, Group, measured_groups
from harness.analysis.rates import Slo, hit_findings, rate_findings
from harness.analysis.resample import RESAMPLES, STATISTICS, Latency, latency
from harness.analysis.roles import recompute_arm
from harness.analysis.slices import slice_findings
from harness.analysis.trend import trend_findings
from harness.records import Run

_COUNTERS = {
    "prefix_cache_hits": ("prefix_cache_hits", "tokens"),
    "external_prefix_cache_hits": ("external_prefix_cache_hits", "tokens"),
    "local_compute": ("prompt_tokens_local_compute", "tokens"),
    "valkey_get_calls": ("valkey_get_calls", "calls"),
    "valkey_bytes_out": ("valkey_bytes_out", "bytes"),
}
_LATENCIES = {"ttft_due": "ttft_due_ms", "tpot": "tpot_ms", "e2el": "e2el_ms"}
PARTS = ("queue", "load_wait", "load", "recompute", "delivery", "unexplained")
"""The parts of a TTFT, as far as requests.parquet has a column of each (with _ms)."""
_THIRDS = 3


def arm_findings(run: Run, resamples: int = RESAMPLES, slos: Sequence[Slo] = ()) -> tuple[Finding, ...]:
    """Findings by arm, workload and pass; what was not measured has no finding. Names: docs/method.md.

    The ratios compare with the same workload and pass of the first arm without LMCache, and are missing without one.
    """
    groups = measured_groups(run)
    passes = run.passes.to_pandas()
    ttft = {(g.arm, g.workload, g.pass_name): latency(g.by_repeat("ttft_ms"), resamples) for g in groups}
    base_arm = recompute_arm(run.meta)
    gaps = itl_findings(run, groups)
    findings: list[Finding] = []
    for group in groups:
        own_passes = rows_of(passes, group)
        findings += _counts(group)
        own = ttft[group.arm, group.workload, group.pass_name]
        if own is not None:
            findings += _latencies("ttft", own, group)
            base = ttft.get((base_arm or "", group.workload, group.pass_name))
            if base is not None and group.arm != base_arm:
                findings += [
                    Finding(f"ttft_{name}_ratio", "x", own.ratio(base, name), group.by) for name in ("p50", "p99")
                ]
        for name, column in _LATENCIES.items():
            measured = latency(group.by_repeat(column), resamples)
            if measured is not None:
                findings += _latencies(name, measured, group)
        findings += gaps.get((group.arm, group.workload, group.pass_name), ())
        findings += rate_findings(group, slos)
        findings += trend_findings(group)
        findings += _third_findings(group, resamples)
        findings += _counters(group, own_passes)
        findings += hit_findings(group, own_passes)
        findings += _part_findings(group, resamples)
        findings += slice_findings(group, resamples)
    return tuple(findings)


def thirds(group: Group) -> tuple[FloatArray, ...]:
    """TTFT (ms) of the requests that succeeded in the first, second and last third of the plan, all repeats together.

    Empty where nothing can be told: a closed loop, whose queue cannot grow, or a third in which nothing succeeded.
    """
    if group.pass_name != OPEN_LOOP_PASS:
        return ()
    split = [np.array_split(values, _THIRDS) for values in group.by_repeat("ttft_ms")]
    parts = [np.concatenate(part) for part in zip(*split, strict=True)]
    present = tuple(part[~np.isnan(part)] for part in parts)
    return present if all(part.size for part in present) else ()


def rows_of(passes: pd.DataFrame, group: Group) -> pd.DataFrame:
    """The rows of `passes` (columns of passes.parquet) that belong to `group`, one a repeat."""
    own = (passes["arm"] == group.arm) & (passes["workload"] == group.workload) & (passes["pass"] == group.pass_name)
    return passes[own]


def _counts(group: Group) -> list[Finding]:
    planned, ok = len(group.requests), len(group.ok)
    counts = {"requests": planned, "ok": ok, "failures": planned - ok}
    return [Finding(name, "requests", _exact(value, planned, "count"), group.by) for name, value in counts.items()]


def _latencies(prefix: str, measured: Latency, group: Group) -> list[Finding]:
    return [Finding(f"{prefix}_{name}", "ms", measured.estimate(name), group.by) for name in STATISTICS]


def _third_findings(group: Group, resamples: int) -> Iterator[Finding]:
    for number, values in enumerate(thirds(group), start=1):
        measured = latency([values], resamples)
        if measured is not None:
            yield Finding(f"ttft_p50_third_{number}", "ms", measured.estimate("p50"), group.by)


def _part_findings(group: Group, resamples: int) -> Iterator[Finding]:
    """Mean of each part of TTFT, of the requests of which it is known."""
    for part in PARTS:
        measured = latency(group.by_repeat(f"{part}_ms"), resamples) if f"{part}_ms" in group.requests else None
        if measured is not None:
            yield Finding(f"{part}_mean", "ms", measured.estimate("mean", positive=False), group.by)


def _counters(group: Group, rows: pd.DataFrame) -> Iterator[Finding]:
    for name, (column, unit) in _COUNTERS.items():
        if len(rows) and rows[column].notna().all():
            total = int(rows[column].sum())
            yield Finding(name, unit, _exact(total, len(rows), "counter increase over all repeats"), group.by)


def _exact(value: float, n: int, method: str) -> Estimate:
    return Estimate(float(value), float(value), float(value), n, method)
