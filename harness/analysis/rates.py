"""How much an arm got done: requests and tokens a second, those within their limits, and the shares that were hits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from harness.analysis.finding import Estimate, Finding
from harness.analysis.interval import of_repeats
from harness.analysis.measured import Group

SLO_METRICS = {"ttft": "ttft_ms", "ttft_due": "ttft_due_ms", "tpot": "tpot_ms", "e2el": "e2el_ms"}
"""The names that a limit may have, and the columns they are limits of."""
_RATES = {"input_tokens_per_s": ("prompt_tokens", "tokens/s"), "output_tokens_per_s": ("completion_tokens", "tokens/s")}
_HIT_RATES = {
    "prefix_cache_hit_rate": ("prefix_cache_hits", "prefix_cache_queries"),
    "external_prefix_cache_hit_rate": ("external_prefix_cache_hits", "external_prefix_cache_queries"),
}


@dataclass(frozen=True, slots=True)
class Slo:
    """A limit that a request must keep: `metric` is a key of SLO_METRICS."""

    metric: str
    limit_ms: float


def rate_findings(group: Group, slos: Sequence[Slo]) -> Iterator[Finding]:
    """Throughput and goodput of `group`; nothing where no request of some repeat was sent and ended."""
    spans = [_span_s(rows) for _, rows in group.requests.groupby("repeat", sort=True)]
    if not spans or not all(spans):
        return
    ok = group.ok
    yield Finding("requests_per_s", "requests/s", _rate(ok, pd.Series(1, ok.index), spans), group.by)
    for name, (column, unit) in _RATES.items():
        if len(ok) and ok[column].notna().all():
            yield Finding(name, unit, _rate(ok, ok[column], spans), group.by)
    if slos:
        kept = ok[keeps(ok, slos)]
        yield Finding("goodput_per_s", "requests/s", _rate(kept, pd.Series(1, kept.index), spans), group.by)
        planned = len(group.requests)
        edges = stats.binomtest(len(kept), planned).proportion_ci(method="wilson")
        share = Estimate(len(kept) / planned, float(edges.low), float(edges.high), planned, "Wilson's 95 % interval")
        yield Finding("slo_share", "", share, group.by)


def keeps(requests: pd.DataFrame, slos: Sequence[Slo]) -> "pd.Series[bool]":
    """Which requests keep every limit; one without the figure (a single token has no tpot) breaks no limit on it."""
    kept = pd.Series(True, requests.index)
    for slo in slos:
        values = requests[SLO_METRICS[slo.metric]]
        kept &= values.isna() | (values <= slo.limit_ms)
    return kept


def hit_findings(group: Group, passes: pd.DataFrame) -> Iterator[Finding]:
    """Hit rates: of the engine's counters (`passes`: the rows of this group), and of the requests' own counts."""
    for name, (hits, queries) in _HIT_RATES.items():
        if len(passes) and passes[[hits, queries]].notna().to_numpy().all() and passes[queries].sum() > 0:
            value = float(passes[hits].sum() / passes[queries].sum())
            yield Finding(name, "", Estimate(value, value, value, len(passes), "counter increases, exact"), group.by)
    ok = group.ok.dropna(subset=["prompt_tokens", "cached_tokens"])
    if len(ok) and len(ok) == len(group.ok):
        value = float(ok["cached_tokens"].sum() / ok["prompt_tokens"].sum())
        yield Finding("cached_share", "", Estimate(value, value, value, len(ok), "counted by the server"), group.by)


def _span_s(requests: pd.DataFrame) -> float:
    """First sent to last done of one repeat, s; 0 if nothing was sent and done."""
    span = (requests["done_ns"].max() - requests["sent_ns"].min()) / 1e9
    return float(span) if span > 0 else 0.0


def _rate(requests: pd.DataFrame, amounts: "pd.Series[float]", spans: Sequence[float]) -> Estimate:
    """Amounts a second, all repeats together; with several repeats, an interval from how they differ."""
    value = float(amounts.sum()) / sum(spans)
    sums = amounts.groupby(requests["repeat"]).sum()
    each = np.array([float(total) for total in sums]) if len(sums) == len(spans) else np.empty(0)
    each = each / np.array(spans) if len(each) else each
    low, high = of_repeats(value, each, positive=True)
    return Estimate(value, low, high, len(requests), "sum / (last done - first sent), repeats added up")
