"""The cost model of each arm as a run knew it before anything was measured: from its probe, its links and its warm-up.

What warmed an arm up had another salt, and is in no measured figure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.measured import FloatArray
from harness.analysis.resample import latency
from harness.analysis.roles import arms_with_lmcache, in_step_arms, placements, remote_arms
from harness.model import CostModel
from harness.model.placement import EVEN
from harness.records import Outcome, Run

FEWEST = 5
_WARM_UP = "warmup"
_COLUMNS = (
    *("arm", "workload", "pass", "outcome"),
    *("prompt_tokens_planned", "ttft_ms", "cached_tokens", "external_cached_tokens"),
    *("loaded_l1_keys", "loaded_l2_keys", "placement_slowdown"),
)


@dataclass(frozen=True, slots=True)
class ArmModel:
    """A cost model, how sure its T0 is, (low, high) in seconds, of how many hits, and how its loads run.

    `in_step`: they hold the engine's step. `has_remote`: they come from a remote tier. T0 is None where no hit loaded
    anything; R is that of prompts which this arm recomputes, and stores if it can.
    """

    model: CostModel
    fixed_s: tuple[float, float]
    hits: int = 0
    in_step: bool = False
    has_remote: bool = False

    def loaded_tokens(self, rows: pd.DataFrame) -> FloatArray:
        """Tokens of each request that were loaded: from the remote tier, of an arm that has one; NaN if not known.

        Inside the engine's step what vLLM holds itself is not loaded again; everywhere else the whole hit is, but for
        what host memory has of it.
        """
        cached = _numbers(rows, "cached_tokens")
        if self.in_step:
            external = _numbers(rows, "external_cached_tokens")
            return np.where(np.isnan(external), cached, external)
        if not self.has_remote:
            return cached
        near, far = _numbers(rows, "loaded_l1_keys"), _numbers(rows, "loaded_l2_keys")
        with np.errstate(invalid="ignore"):
            share = far / (near + far)
        return np.where(np.isnan(share), cached, cached * share)

    def slowdowns(self, rows: pd.DataFrame, tokens: float) -> FloatArray:
        """What the placement of each request's chunks makes of its load: as it is known, or else on the mean."""
        known = _numbers(rows, "placement_slowdown")
        return np.where(np.isnan(known), self.model.placement.slowdown(tokens), known)


def arm_models(run: Run) -> dict[str, ArmModel]:
    """By arm with LMCache; under the empty name the model of those without. Empty for a run that probed nothing."""
    probe: Mapping[str, Any] = run.meta.get("probe") or {}
    if probe.get("prefill_tokens_per_s") is None or probe.get("kv_bytes_per_token") is None:
        return {}
    rate, size = float(probe["prefill_tokens_per_s"]), float(probe["kv_bytes_per_token"])
    warm = run.requests.select([*_COLUMNS]).to_pandas()
    told = (warm["pass"] == _WARM_UP) & (warm["workload"] == _WARM_UP) & (warm["outcome"] == Outcome.OK.value)
    warm = warm[told].dropna(subset=["ttft_ms"])
    found = {"": ArmModel(CostModel(rate, size, None, np.inf), (0.0, 0.0))}
    held, remote, placed = in_step_arms(run.meta), remote_arms(run.meta), placements(run.meta)
    for arm in arms_with_lmcache(run.meta):
        facts = (run.meta.get("arms") or {}).get(arm) or {}
        link, instances = facts.get("link_bytes_per_s"), facts.get("instances")
        delivered = float(link) * int(instances) if link and instances else np.inf
        rows = warm[warm["arm"] == arm]
        own = CostModel(_rate(rows, rate), size, None, delivered, placement=placed.get(arm, EVEN))
        found[arm] = _with_t0(ArmModel(own, (0.0, 0.0), 0, arm in held, arm in remote), rows)
    return found


def _rate(rows: pd.DataFrame, rate: float) -> float:
    """R of prompts that are stored as well: of the warm-up's cold round."""
    cold = rows[rows["cached_tokens"] == 0]
    if len(cold) < FEWEST:
        return rate
    return float((cold["prompt_tokens_planned"] / cold["ttft_ms"]).median() * 1e3)


def _with_t0(arm: ArmModel, rows: pd.DataFrame) -> ArmModel:
    """T0: what is left of the warm-up's hits without their transfers, on the median."""
    loaded = arm.loaded_tokens(rows)
    hits, loaded = rows[loaded > 0], loaded[loaded > 0]
    if len(hits) < FEWEST:
        return arm
    tokens = float(np.median(loaded))
    transfers_ms = arm.slowdowns(hits, tokens) * [arm.model.work_s(one) * 1e3 for one in loaded]
    left = latency([_numbers(hits, "ttft_ms") - transfers_ms])
    assert left is not None  # noqa: S101 - there are hits
    whole = left.estimate("p50", positive=False)
    ends = (whole.value if one is None else one for one in (whole.value, whole.low, whole.high))
    value, low, high = (max(0.0, one) / 1e3 for one in ends)
    return replace(arm, model=replace(arm.model, hit_fixed_s=value), fixed_s=(low, high), hits=len(hits))


def _numbers(rows: pd.DataFrame, column: str) -> FloatArray:
    return rows[column].to_numpy(dtype=np.float64, na_value=np.nan)
