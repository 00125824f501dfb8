"""A published measurement of ten documents through a cache that holds four, to stand beside ours.

One GPU, a 1.5B model, a KV cache of 21,520 tokens, 10 documents of 5,011 tokens, one request at a time; LMCache with
1.5 GB of host memory, chunk 256. TTFT p50 in ms by pass, of vLLM alone and with LMCache in host memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.finding import Finding
from harness.analysis.roles import host_arm, recompute_arm

_P50_MS = {
    "first": (575.5, 597.8),
    "again": (576.2, 48.6),
    "reverse": (505.4, 47.2),
}


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One pass: p50 TTFT (ms) published and ours, of vLLM alone and of LMCache in host memory; None: not measured."""

    workload: str
    pass_name: str
    published_alone_ms: float
    published_host_ms: float
    ours_alone_ms: float | None
    ours_host_ms: float | None


def published_rows(findings: Sequence[Finding], meta: Mapping[str, Any]) -> tuple[PublishedRow, ...]:
    """A row for each pass of a workload of ten documents, in the run's order; none where there is no such workload."""
    ten = {
        str(one["name"])
        for one in (meta.get("spec") or {}).get("workloads") or ()
        if (one.get("passes") or {}).get("documents") == 10
    }
    p50 = {
        (f.by["arm"], f.by["workload"], f.by["pass"]): f.estimate.value
        for f in findings
        if f.name == "ttft_p50" and f.by.keys() == {"arm", "workload", "pass"}
    }
    alone, host = recompute_arm(meta) or "", host_arm(meta) or ""
    cells = dict.fromkeys((workload, name) for _, workload, name in p50 if workload in ten and name in _P50_MS)
    return tuple(
        PublishedRow(work, name, *_P50_MS[name], p50.get((alone, work, name)), p50.get((host, work, name)))
        for work, name in cells
    )
