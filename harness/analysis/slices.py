"""The same figures for a part of an arm's requests: by length of prompt, and by what the cache lookup found."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from harness.analysis.finding import Estimate, Finding
from harness.analysis.measured import Group
from harness.analysis.resample import latency

LENGTH, LOOKUP = "prompt_tokens", "lookup"
MISS, LOCAL, EXTERNAL, HIT, UNKNOWN = "miss", "local hit", "external hit", "hit", "unknown"
LOOKUPS = (MISS, LOCAL, EXTERNAL, HIT, UNKNOWN)
"""What a lookup found: nothing; tokens in the engine's own cache only; any from LMCache; tokens of unknown origin."""


def lookup_outcomes(requests: pd.DataFrame) -> "pd.Series[str]":
    """One of LOOKUPS for each request: by the server's own count of cached tokens, and where they came from."""
    cached, external = requests["cached_tokens"], requests["external_cached_tokens"]
    found = pd.Series(UNKNOWN, requests.index)
    found[cached == 0] = MISS
    found[cached > 0] = HIT
    found[(cached > 0) & (external == 0)] = LOCAL
    found[(cached > 0) & (external > 0)] = EXTERNAL
    return found


def length_buckets(requests: pd.DataFrame) -> "pd.Series[str]":
    """The bucket of each planned prompt length: from one power of two to the next, as `1024-2047`."""
    floors = 2 ** np.floor(np.log2(requests["prompt_tokens_planned"].clip(lower=1).astype(float))).astype(np.int64)
    return pd.Series([f"{low}-{2 * low - 1}" for low in floors], requests.index)


def slice_findings(group: Group, resamples: int) -> Iterator[Finding]:
    """Requests and TTFT by bucket and by lookup outcome; nothing where all requests are in one."""
    for name, labels in ((LENGTH, length_buckets(group.requests)), (LOOKUP, lookup_outcomes(group.requests))):
        if labels.nunique() > 1:
            for label in sorted(labels.unique(), key=_order):
                part = Group(group.arm, group.workload, group.pass_name, group.requests[labels == label])
                yield from _part(part, {**group.by, name: str(label)}, resamples)


def _part(part: Group, by: dict[str, str], resamples: int) -> Iterator[Finding]:
    count = float(len(part.requests))
    yield Finding("requests", "requests", Estimate(count, count, count, len(part.requests), "count"), by)
    measured = latency(part.by_repeat("ttft_ms"), resamples)
    if measured is not None:
        for statistic in ("p50", "p99"):
            yield Finding(f"ttft_{statistic}", "ms", measured.estimate(statistic), by)


def _order(label: str) -> tuple[int, str]:
    head = label.partition("-")[0]
    return (int(head), "") if head.isdecimal() else (LOOKUPS.index(label), "")
