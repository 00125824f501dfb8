"""What a cost model says of a prompt and of traffic: every figure by its name in docs/method.md, with its interval."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import ConfigError
from harness.model import load
from harness.model.cost import CostModel
from harness.model.estimate import Estimate
from harness.model.load import Traffic
from harness.model.uncertain import UncertainModel


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a model: prompts of `prompt_tokens` (None: of any length), at `traffic` (None: one at a time).

    The model's B is what `instances` equal instances deliver together; `most_instances` is how many there may be (None:
    any number). `longest_tokens` is the longest prompt there can be (None: any). `p99_target_s` asks how many are
    needed for that p99. Raises ConfigError for what cannot be asked.
    """

    prompt_tokens: float | None = None
    traffic: Traffic | None = None
    instances: int = 1
    most_instances: int | None = None
    p99_target_s: float | None = None
    longest_tokens: float | None = None

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "instances", "most_instances", "p99_target_s", "longest_tokens"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} is {value}", where="question", remedy="it is above zero")
        if self.traffic is not None and self.traffic.prompt_tokens != self.prompt_tokens:
            raise ConfigError(
                "a rate needs the length of the prompts that come at it", where="question", remedy="give --prompt"
            )


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its unit and its estimate."""

    unit: str
    estimate: Estimate


def figures(model: UncertainModel, question: Question) -> dict[str, Figure]:
    """Every figure that the model's inputs and the question allow; what T0 is needed for is missing without it."""
    has_t0 = model.point.hit_fixed_s is not None
    found = {**_inputs(model), **_of_machine(model, has_t0=has_t0)}
    if question.prompt_tokens is not None:
        found |= _of_prompt(model, question.prompt_tokens, question.instances, has_t0=has_t0)
    if question.traffic is not None:
        found |= _of_traffic(model, question.traffic, question.instances, has_t0=has_t0)
        if has_t0 and question.p99_target_s is not None:
            found |= _for_target(model, question.traffic, question.instances, question.p99_target_s)
    return found


def _inputs(model: UncertainModel) -> dict[str, Figure]:
    units = {
        "prefill_tokens_per_s": "tokens/s",
        "prefill_fixed_s": "s",
        "prefill_s_per_token2": "s/token^2",
        "kv_bytes_per_token": "bytes/token",
        "hit_fixed_s": "s",
        "bandwidth_bytes_per_s": "bytes/s",
    }
    optional = {"prefill_fixed_s", "prefill_s_per_token2"}
    told = {
        name: unit
        for name, unit in units.items()
        if getattr(model.point, name) is not None and (name not in optional or getattr(model.point, name) > 0)
    }
    return _each(model, {name: (unit, _input(name)) for name, unit in told.items()})


def _input(name: str) -> Callable[[CostModel], float]:
    def get(model: CostModel) -> float:
        value: Any = getattr(model, name)
        return float(value)

    return get


def _of_machine(model: UncertainModel, *, has_t0: bool) -> dict[str, Figure]:
    found: dict[str, tuple[str, Callable[[CostModel], float]]] = {
        "bstar_bytes_per_s": ("bytes/s", lambda m: m.bstar_bytes_per_s)
    }
    if has_t0:
        found["break_even_tokens"] = ("tokens", lambda m: m.break_even.tokens)
        found["break_even_at_any_bandwidth_tokens"] = ("tokens", lambda m: m.unlimited().break_even.tokens)
    return _each(model, found)


def _of_prompt(model: UncertainModel, tokens: float, instances: int, *, has_t0: bool) -> dict[str, Figure]:
    found: dict[str, tuple[str, Callable[[CostModel], float]]] = {
        "recompute_s": ("s", lambda m: m.recompute_s(tokens)),
        "transfer_s": ("s", lambda m: m.transfer_s(tokens)),
        "bstar_at_prompt_bytes_per_s": ("bytes/s", lambda m: m.bstar_at(tokens)),
        "bandwidth_over_bstar": ("x", lambda m: m.bandwidth_bytes_per_s / m.bstar_at(tokens)),
    }
    if not model.point.placement.is_even:
        found |= {
            "placement_slowdown": ("x", lambda m: m.placement.slowdown(tokens)),
            "bandwidth_to_prompt_bytes_per_s": (
                "bytes/s",
                lambda m: m.bandwidth_bytes_per_s / m.placement.slowdown(tokens),
            ),
        }
    if has_t0:
        found |= {
            "hit_s": ("s", lambda m: m.hit_s(tokens)),
            "hit_over_recompute": ("x", lambda m: m.hit_s(tokens) / m.recompute_s(tokens)),
            "bandwidth_needed_bytes_per_s": ("bytes/s", lambda m: m.bandwidth_needed(tokens)),
            "instances_for_median": ("instances", lambda m: m.instances(1 / instances).shards_for_median(tokens)),
        }
    return _each(model, found)


def _of_traffic(model: UncertainModel, traffic: Traffic, instances: int, *, has_t0: bool) -> dict[str, Figure]:
    hits, tokens = traffic.hits_per_s, traffic.prompt_tokens

    def recompute_p99(m: CostModel) -> float:
        return load.recompute_quantile_s(m, traffic, 0.99)

    found: dict[str, tuple[str, Callable[[CostModel], float]]] = {
        "rho": ("", lambda m: load.remote_load(m, traffic)),
        "recompute_load": ("", lambda m: load.recompute_load(m, traffic)),
        "recompute_highest_rate_per_s": ("requests/s", lambda m: 1 / m.recompute_s(tokens)),
        "instances_for_rate": (
            "instances",
            lambda m: m.instances(1 / instances).shards_needed(hits, tokens, load.ROUTED_RHO) if hits else 1,
        ),
        "routed_share": ("", lambda m: load.routed_share(m, traffic)),
        "recompute_p50_s": ("s", lambda m: load.recompute_quantile_s(m, traffic, 0.5)),
        "recompute_p99_s": ("s", recompute_p99),
    }
    if has_t0 or not traffic.in_step:
        found |= {
            "engine_load": ("", lambda m: load.engine_load(m, traffic)),
            "highest_rate_per_s": ("requests/s", lambda m: load.highest_stable_rate(m, traffic)),
            "engine_s_given_back": ("s/s", lambda m: load.engine_s_given_back(m, traffic)),
        }
    if has_t0:
        found |= {
            "hit_p50_s": ("s", lambda m: load.hit_quantile_s(m, traffic, 0.5)),
            "hit_p99_s": ("s", lambda m: load.hit_quantile_s(m, traffic, 0.99)),
            "p50_ratio": ("x", lambda m: quantile_ratio(m, traffic, 0.5)),
            "p99_ratio": ("x", lambda m: quantile_ratio(m, traffic, 0.99)),
        }
    return _each(model, found)


def _for_target(model: UncertainModel, traffic: Traffic, instances: int, target_s: float) -> dict[str, Figure]:
    def needed(m: CostModel) -> float:
        return load.shards_for_quantile(m.instances(1 / instances), traffic, 0.99, target_s)

    return _each(model, {"instances_for_p99": ("instances", needed)})


def quantile_ratio(model: CostModel, traffic: Traffic, quantile: float) -> float:
    """TTFT of hits / TTFT of recomputing at a quantile; where both queues grow without end, 1: neither is better."""
    hit, recompute = load.hit_quantile_s(model, traffic, quantile), load.recompute_quantile_s(model, traffic, quantile)
    if math.isinf(hit) and math.isinf(recompute):
        return 1.0
    return hit / recompute


def _each(model: UncertainModel, wanted: Mapping[str, tuple[str, Callable[[CostModel], float]]]) -> dict[str, Figure]:
    return {name: Figure(unit, model.estimate(figure)) for name, (unit, figure) in wanted.items()}
