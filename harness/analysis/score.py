"""The cost model's predictions of a run beside what the run measured: per arm, kind of request and length.

The predictions come from what was known before anything was measured: R and s of the probe, the arm's links, and the
hits of its warm-up, which had another salt and are in no measured figure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.finding import Estimate, Finding
from harness.analysis.measured import OPEN_LOOP_PASS, FloatArray, Group, measured_groups
from harness.analysis.resample import RESAMPLES, latency
from harness.analysis.roles import in_step_arms, recompute_arm
from harness.model import CostModel
from harness.model.load import Traffic, engine_load, hit_quantile_s, recompute_quantile_s, remote_load
from harness.records import Outcome, Run

QUANTILES = {"p50": 0.5, "p99": 0.99}
_FEWEST = 5
_WARM_UP = "warmup"


@dataclass(frozen=True, slots=True)
class _Prediction:
    """A cost model, how sure its T0 is, (low, high) in seconds, from how many hits, and whether loads hold the step."""

    model: CostModel
    fixed_s: tuple[float, float]
    hits: int = 0
    in_step: bool = False


def score_findings(run: Run, resamples: int = RESAMPLES) -> tuple[Finding, ...]:
    """Predicted and measured TTFT by arm, workload, pass, kind (hit or recompute) and tokens; by arm also the ratios.

    Empty for a run that probed nothing. A closed loop has one request at a time: the median alone is predicted. Names
    and formulas: docs/method.md.
    """
    predictions = _predictions(run)
    base, found = recompute_arm(run.meta), list[Finding]()
    groups = measured_groups(run)
    for group in groups:
        rate = _rate(run, group)
        for kind, tokens, rows in _classes(group):
            prediction = predictions.get(group.arm if kind == "hit" else "")
            if prediction is not None:
                by = {**group.by, "kind": kind, "tokens": str(tokens)}
                found += _of_class(prediction, by, rows, rate, resamples)
    return (*found, *_ratios(found, base))


def fixed_cost_findings(run: Run) -> Iterator[Finding]:
    """`hit_fixed_s`, T0 of each arm with LMCache, as its warm-up's hits told it; none for a run without a probe."""
    for arm, prediction in _predictions(run).items():
        if arm:
            value, (low, high) = prediction.model.hit_fixed_s or 0.0, prediction.fixed_s
            estimate = Estimate(value, low, high, prediction.hits, "median of the warm-up's hits - n s / B")
            yield Finding("hit_fixed_s", "s", estimate, {"arm": arm})


def _predictions(run: Run) -> dict[str, _Prediction]:
    """By arm with LMCache; under the empty name the model without any tier. Empty for a run that probed nothing."""
    probe: Mapping[str, Any] = run.meta.get("probe") or {}
    if probe.get("prefill_tokens_per_s") is None or probe.get("kv_bytes_per_token") is None:
        return {}
    rate, size = float(probe["prefill_tokens_per_s"]), float(probe["kv_bytes_per_token"])
    found = {"": _Prediction(CostModel(rate, size, None, np.inf), (0.0, 0.0))}
    columns = ["arm", "pass", "outcome", "cached_tokens", "ttft_ms"]
    held = in_step_arms(run.meta)
    warm = run.requests.select(columns).to_pandas()
    warm = warm[(warm["pass"] == _WARM_UP) & (warm["outcome"] == Outcome.OK.value) & (warm["cached_tokens"] > 0)]
    for arm, rows in warm.groupby("arm", sort=False):
        facts = (run.meta.get("arms") or {}).get(arm) or {}
        link, instances = facts.get("link_bytes_per_s"), facts.get("instances")
        delivered = float(link) * int(instances) if link and instances else np.inf
        transfer_s = float(rows["cached_tokens"].median()) * size / delivered
        hit = latency([rows["ttft_ms"].to_numpy(dtype=np.float64)])
        if hit is not None and len(rows) >= _FEWEST:
            whole = hit.estimate("p50")
            low, value, high = (
                max(0.0, (whole.value if one is None else one) / 1e3 - transfer_s)
                for one in (whole.low, whole.value, whole.high)
            )
            model = CostModel(rate, size, value, delivered)
            found[str(arm)] = _Prediction(model, (low, high), len(rows), arm in held)
    return found


def _rate(run: Run, group: Group) -> float | None:
    """Requests a second of an open loop; None for a closed one."""
    if group.pass_name != OPEN_LOOP_PASS:
        return None
    rate = ((run.meta.get("plans") or {}).get(f"{group.workload}/0") or {}).get("rate_per_s")
    return None if rate is None else float(rate)


def _classes(group: Group) -> Iterator[tuple[str, int, pd.DataFrame]]:
    """Requests that are alike: hits by the tokens cached, and cold ones by their whole length in hundreds."""
    rows = group.ok.dropna(subset=["cached_tokens", "ttft_ms"])
    hits, cold = rows[rows["cached_tokens"] > 0], rows[rows["cached_tokens"] == 0]
    for _, alike in hits.groupby("cached_tokens"):
        if len(alike) >= _FEWEST:
            yield "hit", int(alike["cached_tokens"].iloc[0]), alike
    for _, alike in cold.groupby(cold["prompt_tokens_planned"] // 100):
        if len(alike) >= _FEWEST:
            yield "recompute", int(alike["prompt_tokens_planned"].median()), alike


def _of_class(
    prediction: _Prediction, by: Mapping[str, str], rows: pd.DataFrame, rate: float | None, resamples: int
) -> Iterator[Finding]:
    values: list[FloatArray] = [
        part["ttft_ms"].to_numpy(dtype=np.float64) for _, part in rows.groupby("repeat", sort=True)
    ]
    measured = latency(values, resamples)
    if measured is None:
        return
    tokens, low, high = float(by["tokens"]), *prediction.fixed_s
    for name, quantile in QUANTILES.items():
        if rate is None and name != "p50":
            continue
        value = _seconds(prediction, by["kind"], tokens, rate, quantile) * 1e3
        fixed_ms = (prediction.model.hit_fixed_s or 0.0) * 1e3
        steady = bool(np.isfinite(value))
        predicted = Estimate(value, None, None, 1, "cost model" if steady else "no steady state")
        if steady and by["kind"] == "hit":
            predicted = replace(predicted, low=value - fixed_ms + low * 1e3, high=value - fixed_ms + high * 1e3)
        own = measured.estimate(name)
        yield Finding(f"predicted_{name}", "ms", predicted, by)
        yield Finding(f"measured_{name}", "ms", own, by)
        if steady:
            ratio = Estimate(value / own.value, None, None, own.n, "predicted / measured")
            yield Finding(f"predicted_over_measured_{name}", "x", ratio, by)
    if rate is not None:
        traffic = Traffic(rate, tokens, in_step=prediction.in_step)
        load = prediction.model.recompute_load(rate, tokens)
        if by["kind"] == "hit":
            load = max(remote_load(prediction.model, traffic), engine_load(prediction.model, traffic))
        yield Finding("predicted_rho", "", Estimate(load, None, None, 1, "load of what is busiest"), by)


def _seconds(prediction: _Prediction, kind: str, tokens: float, rate: float | None, quantile: float) -> float:
    model = prediction.model
    if rate is None:
        return model.hit_s(tokens) if kind == "hit" else model.recompute_s(tokens)
    if kind == "recompute":
        return recompute_quantile_s(model, Traffic(rate, tokens), quantile)
    return hit_quantile_s(model, Traffic(rate, tokens, in_step=prediction.in_step), quantile)


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
