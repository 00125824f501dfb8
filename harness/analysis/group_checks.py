"""What to mind about the requests of one arm, workload and pass."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from harness.analysis.arms import rows_of, thirds
from harness.analysis.finding import ScopedCaveat
from harness.analysis.measured import Group
from harness.analysis.trend import trend_findings
from harness.analysis.wording import digits, times_ms
from harness.records import Caveat, Outcome

FAILURES = "failures"
LATE = "client_late"
TOKENS = "prompt_tokens"
SOURCES = "tokens_by_source"
UNSTABLE = "unstable"

_MAX_FAILED_SHARE = 0.001
_MAX_LAG_SHARE = 0.01
_RISE = 1.5
_SOURCES = ["prompt_tokens_local_compute", "prompt_tokens_local_cache_hit", "prompt_tokens_external_kv_transfer"]


def group_caveats(group: Group, passes: pd.DataFrame) -> Iterator[ScopedCaveat]:
    """The caveats of `group`; `passes` has the columns of passes.parquet."""
    for caveat in (*_failures(group), *_late(group), *_tokens(group), *_sources(group, passes), *_unstable(group)):
        yield ScopedCaveat(group.by, caveat)


def is_rising(medians: Sequence[float]) -> bool:
    """Whether medians by thirds show a queue that grows: rising through all, the last over 1.5 times the first."""
    return len(medians) == 3 and medians[0] < medians[1] < medians[2] and medians[2] > _RISE * medians[0]


def _failures(group: Group) -> Iterator[Caveat]:
    outcomes = group.requests["outcome"].value_counts()
    failed = {str(name): int(count) for name, count in outcomes.items() if name != Outcome.OK.value}
    count, planned = sum(failed.values()), len(group.requests)
    if count > _MAX_FAILED_SHARE * planned:
        kinds = ", ".join(f"{name} {number}" for name, number in failed.items())
        text = f"{group.label}: {count} of {planned} requests failed ({kinds}); latencies are of the others only"
        yield Caveat(FAILURES, text, "see `error` in requests.parquet and the arm's logs")


def _late(group: Group) -> Iterator[Caveat]:
    """The generator's own lateness must be small beside what it measures."""
    lag_ms, ttft_ms = group.requests["send_lag_ms"].dropna(), group.ok["ttft_ms"].dropna()
    if lag_ms.empty or ttft_ms.empty:
        return
    late, median = float(np.percentile(lag_ms, 99)), float(ttft_ms.median())
    if late > _MAX_LAG_SHARE * median:
        beside = f"{late / median:.1%} of the median TTFT ({digits(median)} ms)"
        text = f"{group.label}: the client sent late, p99 {digits(late)} ms after due: {beside}"
        yield Caveat(LATE, text, "give the client a CPU core of its own, or lower the rate")


def _tokens(group: Group) -> Iterator[Caveat]:
    counted = group.ok.dropna(subset=["prompt_tokens"])
    wrong = int((counted["prompt_tokens"] != counted["prompt_tokens_planned"]).sum())
    if wrong:
        text = (
            f"{group.label}: in {wrong} of {len(counted)} requests the server counted other prompt tokens than planned"
        )
        yield Caveat(TOKENS, text, "check the model's tokenizer and max_model_len")


def _sources(group: Group, passes: pd.DataFrame) -> Iterator[Caveat]:
    """vLLM: local_compute + local_cache_hit + external_kv_transfer = prompt tokens (v1/metrics/stats.py, 0.31).

    Told only where every request says how long its prompt was and every counter was read.
    """
    of_group = rows_of(passes, group)
    for repeat, requests in group.requests.groupby("repeat"):
        counters, served = of_group[of_group["repeat"] == repeat][_SOURCES], requests["prompt_tokens"]
        if len(counters) != 1 or counters.isna().to_numpy().any() or served.isna().any():
            continue
        by_source, prompts = int(counters.to_numpy().sum()), int(served.sum())
        if by_source != prompts:
            text = f"{group.label}, repeat {repeat}: tokens by source add up to {by_source}, the prompts have {prompts}"
            yield Caveat(SOURCES, text, "look for other clients of this engine, or for preempted requests")


def _unstable(group: Group) -> Iterator[Caveat]:
    medians = [float(np.median(third)) for third in thirds(group)]
    if is_rising(medians):
        shown = ", ".join(times_ms(medians))
        text = f"{group.label}: the median TTFT rises through the run ({shown} by thirds): p50 depends on its length"
        ends = {finding.name: finding.estimate.value for finding in trend_findings(group)}
        if "drain_s" in ends:
            waiting, drain_s = ends["backlog_at_last_arrival"], ends["drain_s"]
            text += f"; {waiting:.0f} unanswered at the last arrival, which took {digits(drain_s)} s to drain"
        yield Caveat(UNSTABLE, text, "there is no steady state: lower the rate, or add bandwidth")
