"""The cost model's predictions of a run beside what the run measured: per arm, kind of request and length.

The predictions come from what was known before anything was measured (analysis.score_model), and from where the chunks
of each prompt lie, which follows from the prompt.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from harness.analysis.finding import Estimate, Finding
from harness.analysis.measured import OPEN_LOOP_PASS, FloatArray, Group, measured_groups
from harness.analysis.resample import RESAMPLES, latency
from harness.analysis.roles import recompute_arm
from harness.analysis.score_load import measured_rho
from harness.analysis.score_model import FEWEST, ArmModel, arm_models
from harness.model import CostModel
from harness.model.load import Traffic, engine_load, hit_quantile_s, recompute_quantile_s, remote_load
from harness.records import Run

QUANTILES = {"p50": 0.5, "p99": 0.99}
_OF_BUSIEST = "load of what is busiest"


def score_findings(run: Run, resamples: int = RESAMPLES) -> tuple[Finding, ...]:
    """Predicted and measured TTFT by arm, workload, pass, kind (hit or recompute) and tokens; by arm also the ratios.

    Empty for a run that probed nothing. A closed loop has one request at a time: the median alone is predicted. Names
    and formulas: docs/method.md.
    """
    models = arm_models(run)
    if not models:
        return ()
    base, found, passes = recompute_arm(run.meta), list[Finding](), run.passes.to_pandas()
    for group in measured_groups(run):
        own = models.get(group.arm, models[""])
        rate = _rate(run, group)
        for kind, tokens, rows in _classes(group, own):
            if kind == "recompute" or own.model.hit_fixed_s is not None:
                by = {**group.by, "kind": kind, "tokens": str(tokens)}
                found += _of_class(own, by, rows, rate, resamples)
                if rate is not None:
                    found += measured_rho(group, own, passes, by)
    return (*found, *_ratios(found, base))


def fixed_cost_findings(run: Run) -> Iterator[Finding]:
    """`hit_fixed_s`, T0 of each arm with LMCache, as its warm-up's hits told it; none for a run without a probe."""
    for arm, own in arm_models(run).items():
        value, (low, high) = own.model.hit_fixed_s, own.fixed_s
        if value is not None:
            method = "median of the warm-up's hits - n s / B x placement_slowdown"
            yield Finding("hit_fixed_s", "s", Estimate(value, low, high, own.hits, method), {"arm": arm})


def _rate(run: Run, group: Group) -> float | None:
    """Requests a second of an open loop; None for a closed one."""
    if group.pass_name != OPEN_LOOP_PASS:
        return None
    rate = ((run.meta.get("plans") or {}).get(f"{group.workload}/0") or {}).get("rate_per_s")
    return None if rate is None else float(rate)


def _classes(group: Group, own: ArmModel) -> Iterator[tuple[str, int, pd.DataFrame]]:
    """Requests that are alike: hits by the tokens loaded, and cold ones by their whole length in hundreds."""
    rows = group.ok.dropna(subset=["cached_tokens", "ttft_ms"])
    loaded = pd.Series(own.loaded_tokens(rows), rows.index)
    hits, cold = rows[loaded > 0], rows[rows["cached_tokens"] == 0]
    for tokens, alike in hits.groupby(loaded[loaded > 0]):
        if len(alike) >= FEWEST:
            yield "hit", round(float(tokens)), alike
    for _, alike in cold.groupby(cold["prompt_tokens_planned"] // 100):
        if len(alike) >= FEWEST:
            yield "recompute", int(alike["prompt_tokens_planned"].median()), alike


def _of_class(
    own: ArmModel, by: Mapping[str, str], rows: pd.DataFrame, rate: float | None, resamples: int
) -> Iterator[Finding]:
    values: list[FloatArray] = [
        part["ttft_ms"].to_numpy(dtype=np.float64) for _, part in rows.groupby("repeat", sort=True)
    ]
    measured = latency(values, resamples)
    if measured is None:
        return
    tokens, is_hit = float(by["tokens"]), by["kind"] == "hit"
    slowdowns = own.slowdowns(rows, tokens)
    for name, quantile in QUANTILES.items():
        if rate is None and name != "p50":
            continue
        traffic = None if rate is None else Traffic(rate, tokens, in_step=own.in_step)
        if is_hit:
            value = _hit_s(own.model, tokens, slowdowns, traffic, quantile) * 1e3
        else:
            value = _recompute_s(own.model, tokens, traffic, quantile) * 1e3
        fixed_ms = (own.model.hit_fixed_s or 0.0) * 1e3
        steady = bool(np.isfinite(value))
        predicted = Estimate(value, None, None, 1, "cost model" if steady else "no steady state")
        if steady and is_hit:
            low, high = own.fixed_s
            predicted = replace(predicted, low=value - fixed_ms + low * 1e3, high=value - fixed_ms + high * 1e3)
        seen = measured.estimate(name)
        yield Finding(f"predicted_{name}", "ms", predicted, by)
        yield Finding(f"measured_{name}", "ms", seen, by)
        if steady:
            ratio = Estimate(value / seen.value, None, None, seen.n, "predicted / measured")
            yield Finding(f"predicted_over_measured_{name}", "x", ratio, by)
    if rate is not None:
        yield Finding("predicted_rho", "", Estimate(_load(own, tokens, rate, is_hit), None, None, 1, _OF_BUSIEST), by)


def _hit_s(model: CostModel, tokens: float, slowdowns: FloatArray, traffic: Traffic | None, quantile: float) -> float:
    """One after another: the quantile of the hits' own times, each with its placement; else with a queue."""
    if traffic is None:
        return float(np.quantile([model.hit_s(tokens, one) for one in slowdowns], quantile))
    placed = Counter(map(float, slowdowns))
    spread = [(slowdown, count / len(slowdowns)) for slowdown, count in placed.items()]
    return hit_quantile_s(model, traffic, quantile, spread)


def _recompute_s(model: CostModel, tokens: float, traffic: Traffic | None, quantile: float) -> float:
    return model.recompute_s(tokens) if traffic is None else recompute_quantile_s(model, traffic, quantile)


def _load(own: ArmModel, tokens: float, rate: float, is_hit: bool) -> float:
    """Of the remote tier, or of the engine where loads hold its step; of the engine for what is computed."""
    if not is_hit:
        return own.model.recompute_load(rate, tokens)
    traffic = Traffic(rate, tokens, in_step=own.in_step)
    return max(remote_load(own.model, traffic), engine_load(own.model, traffic))


def _ratios(found: list[Finding], base: str | None) -> Iterator[Finding]:
    """Of each arm's hits to recompute, at their commonest lengths: who wins by the prediction."""
    for name in QUANTILES:
        of_base = _commonest(found, f"predicted_{name}", base)
        arms = dict.fromkeys(finding.by["arm"] for finding in found)
        for arm in arms:
            own = {} if arm == base else _commonest(found, f"predicted_{name}", arm)
            for place, finding in own.items():
                if place in of_base and finding.by["kind"] == "hit":
                    ratio = finding.estimate.value / of_base[place].estimate.value
                    by = {key: finding.by[key] for key in ("arm", "workload", "pass")}
                    method = "predicted / predicted of recompute"
                    yield Finding(f"predicted_{name}_ratio", "x", Estimate(ratio, None, None, 1, method), by)


def _commonest(found: list[Finding], name: str, arm: str | None) -> dict[tuple[str, str], Finding]:
    """By workload and pass, the finding of an arm that speaks of the most requests."""
    sizes = {_key(one): one.estimate.n for one in found if one.name.startswith("measured_p50")}
    best: dict[tuple[str, str], Finding] = {}
    for one in found:
        place = (one.by["workload"], one.by["pass"])
        if one.name == name and one.by["arm"] == arm:
            kept = best.get(place)
            if kept is None or sizes.get(_key(one), 0) > sizes.get(_key(kept), 0):
                best[place] = one
    return best


def _key(finding: Finding) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(finding.by.items()))
