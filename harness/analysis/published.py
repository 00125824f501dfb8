"""A published measurement of ten documents through a cache that holds four, to stand beside ours.

One GPU, a 1.5B model, a KV cache of 21,520 tokens, 10 documents of 5,011 tokens, one request at a time; LMCache with
1.5 GB of host memory, chunk 256.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.finding import Finding
from harness.analysis.roles import host_arm, recompute_arm

_P50_AND_MEAN_MS = {
    "vLLM alone": {"first": (575.5, 581.2), "again": (576.2, 575.9), "reverse": (505.4, 343.6)},
    "LMCache in host memory": {"first": (597.8, 605.4), "again": (48.6, 49.6), "reverse": (47.2, 40.9)},
}


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One configuration and pass: p50 and mean TTFT (ms), published and ours; None: not measured."""

    workload: str
    pass_name: str
    configuration: str
    published_p50_ms: float
    published_mean_ms: float
    ours_p50_ms: float | None
    ours_mean_ms: float | None


def published_rows(findings: Sequence[Finding], meta: Mapping[str, Any]) -> tuple[PublishedRow, ...]:
    """Two rows for each pass over ten documents, in the run's order; none where there is no such workload."""
    ten = {
        str(one["name"])
        for one in (meta.get("spec") or {}).get("workloads") or ()
        if (one.get("passes") or {}).get("documents") == 10
    }
    ours = {
        (f.name, f.by["arm"], f.by["workload"], f.by["pass"]): f.estimate.value
        for f in findings
        if f.name in {"ttft_p50", "ttft_mean"} and f.by.keys() == {"arm", "workload", "pass"}
    }
    arms = dict(zip(_P50_AND_MEAN_MS, (recompute_arm(meta), host_arm(meta)), strict=True))
    cells = dict.fromkeys((workload, name) for _, _, workload, name in ours if workload in ten)
    return tuple(
        PublishedRow(
            *(workload, name, configuration, *passes[name]),
            *(ours.get((figure, arms[configuration] or "", workload, name)) for figure in ("ttft_p50", "ttft_mean")),
        )
        for workload, name in cells
        for configuration, passes in _P50_AND_MEAN_MS.items()
        if name in passes
    )
