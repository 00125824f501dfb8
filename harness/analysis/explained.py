"""Where the TTFT of each arm, workload and pass went, how much of it is told, and how busy the engine was."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from harness.analysis.arms import rows_of
from harness.analysis.finding import Estimate, Finding, ScopedCaveat
from harness.analysis.measured import MEASURED_PASSES, Group, measured_groups
from harness.analysis.roles import remote_arms
from harness.records import Caveat, Outcome, Run

PARTS = ("queue_ms", "load_wait_ms", "load_ms", "recompute_ms", "delivery_ms", "unexplained_ms")
_FIGURES = [*PARTS, "lookup", "external_cached_tokens", "loaded_bytes_per_s", "t0_unix_ns", "sent_ns", "done_ns"]
_KEY = ["arm", "workload", "pass", "repeat", "seq"]
_UNTOLD = {"no_log"}
_NO_LOG = {"lmcache_log", "log_of_another_run"}
"""Caveats of a run that say why nothing is told of any lookup."""
TOKENS = "tokens_three_ways"
UNJOINED = "lookups_not_told"
TIER = "tier_not_told"


def explained_findings(run: Run) -> tuple[Finding, ...]:
    """For each measured arm, workload and pass: the mean of each part of TTFT and of TTFT less its delivery, the share
    that is unexplained, bandwidth to a prompt, what became of the lookups, and the engine's useful time.

    What was not told has no finding. Names: docs/method.md.
    """
    passes = run.passes.to_pandas()
    rate = (run.meta.get("probe") or {}).get("prefill_tokens_per_s")
    findings: list[Finding] = []
    for group, rows in _groups(run):
        findings += _parts(group, rows)
        findings += _lookups(group, rows)
        findings += _busy(group, passes, rate)
    return tuple(findings)


def explained_caveats(run: Run) -> tuple[ScopedCaveat, ...]:
    """Where the client, the engine and LMCache count different tokens, and where lookups are not told of."""
    passes = run.passes.to_pandas()
    loads = run.loads.select(["arm", "kind", "tokens", "cost_ms", "t_unix_ns"]).to_pandas()
    loads = loads[(loads["kind"] == "load") & loads["cost_ms"].notna()]
    ranks, remote = _ranks(run), remote_arms(run.meta)
    no_log = any(one["kind"] in _NO_LOG for one in run.meta.get("caveats") or ())
    found: list[ScopedCaveat] = []
    for group, rows in _groups(run):
        found += [ScopedCaveat(group.by, caveat) for caveat in _three_ways(group, rows, passes, loads, ranks)]
        untold = int(rows["lookup"].isin(_UNTOLD).sum())
        if untold and not (untold == len(rows) and no_log):
            text = f"{group.label}: LMCache's log says nothing of {untold} of {len(rows)} requests"
            found.append(ScopedCaveat(group.by, Caveat(UNJOINED, text, "see the caveats about LMCache's log")))
        if group.arm in remote and _tier_is_open(rows, rows_of(passes, group)):
            text = f"{group.label}: whether hits came out of LMCache's host memory or out of Valkey is not told"
            found.append(ScopedCaveat(group.by, Caveat(TIER, text, "give attach.valkey_urls, or LMCache's log")))
    return tuple(found)


def _groups(run: Run) -> Iterator[tuple[Group, pd.DataFrame]]:
    """The measured groups, each with the columns that explain its requests that succeeded."""
    more = run.requests.select([*_KEY, *_FIGURES, "outcome", "ttft_ms"]).to_pandas()
    more = more[more["pass"].isin(MEASURED_PASSES) & (more["outcome"] == Outcome.OK.value)]
    for group in measured_groups(run):
        own = (more["arm"] == group.arm) & (more["workload"] == group.workload) & (more["pass"] == group.pass_name)
        yield group, more[own]


def _parts(group: Group, rows: pd.DataFrame) -> Iterator[Finding]:
    told = rows[rows["unexplained_ms"].notna()]
    if told.empty:
        return
    for name in PARTS:
        if told[name].notna().any():
            yield Finding(f"{name.removesuffix('_ms')}_mean", "ms", _mean(told[name].fillna(0.0)), group.by)
    share = (told["unexplained_ms"].abs() / told["ttft_ms"]).to_numpy(dtype=np.float64)
    yield Finding("unexplained_share_p50", "", _of(float(np.median(share)), len(share), "median of requests"), group.by)
    rate = told["loaded_bytes_per_s"].dropna()
    if len(rate):
        yield Finding("loaded_bytes_per_s_p50", "bytes/s", _of(float(rate.median()), len(rate), "median"), group.by)


def _lookups(group: Group, rows: pd.DataFrame) -> Iterator[Finding]:
    for name, count in rows["lookup"].value_counts().items():
        yield Finding(f"lookup_{name}", "requests", _exact(int(count), len(rows)), group.by)


def _busy(group: Group, passes: pd.DataFrame, prefill_tokens_per_s: float | None) -> Iterator[Finding]:
    """Useful time over the whole pass: the tokens it computed, at the rate R of the probe, over how long it took."""
    own = rows_of(passes, group)
    if not prefill_tokens_per_s or own.empty or own["prompt_tokens_local_compute"].isna().any():
        return
    duration_s = float(own["duration_s"].sum())
    if duration_s > 0:
        share = float(own["prompt_tokens_local_compute"].sum()) / prefill_tokens_per_s / duration_s
        yield Finding("engine_busy_share", "", _of(share, len(own), "tokens computed / R / time"), group.by)


def _three_ways(
    group: Group, rows: pd.DataFrame, passes: pd.DataFrame, loads: pd.DataFrame, ranks: int
) -> Iterator[Caveat]:
    """External tokens by the client's usage, the engine's counters, and LMCache's load lines: all there, and equal."""
    own = rows_of(passes, group)
    counted = ["external_cached_tokens", "t0_unix_ns", "sent_ns", "done_ns"]
    joined = rows["lookup"].notna() & ~rows["lookup"].isin({"no_lmcache", *_UNTOLD})
    if own.empty or rows[counted].isna().any(axis=None) or not joined.any():
        return
    client, engine = int(rows["external_cached_tokens"].sum()), own["external_prefix_cache_hits"].sum(min_count=1)
    during = pd.Series(data=False, index=loads.index)
    for _, repeat in rows.groupby("repeat"):
        zero = int(repeat["t0_unix_ns"].iloc[0])
        start, end = zero + int(repeat["sent_ns"].min()), zero + int(repeat["done_ns"].max())
        during |= loads["t_unix_ns"].between(start, end) & (loads["arm"] == group.arm)
    lmcache = int(loads.loc[during, "tokens"].sum()) // ranks
    counts = {"the client": client, "the engine's counters": engine, "LMCache's log": lmcache}
    if len({int(count) for count in counts.values() if not pd.isna(count)}) > 1:
        told = ", ".join(f"{who} {int(count):,}" for who, count in counts.items() if not pd.isna(count))
        text = f"{group.label}: tokens that LMCache supplied are counted differently: {told}"
        yield Caveat(TOKENS, text, "LMCache loads whole chunks, also where the engine has a part of one already")


def _tier_is_open(rows: pd.DataFrame, own: pd.DataFrame) -> bool:
    """Whether there were hits of LMCache, and neither its log nor a Valkey says which of its tiers they came from."""
    told = rows["lookup"].isin({"l1", "l2", "l1_and_l2"}).any() or own["valkey_get_calls"].notna().any()
    return not told and bool((own["external_prefix_cache_hits"].fillna(0) > 0).any())


def _ranks(run: Run) -> int:
    engine = (run.meta.get("spec") or {}).get("engine") or {}
    return int(engine.get("tensor_parallel") or 1)


def _mean(values: Sequence[float] | pd.Series) -> Estimate:
    return _of(float(np.mean(values)), len(values), "mean of requests with a first token")


def _of(value: float, n: int, method: str) -> Estimate:
    return Estimate(value, None, None, n, method)


def _exact(value: int, n: int) -> Estimate:
    return Estimate(float(value), float(value), float(value), n, "count")
