"""Should the remote tier be on? What the numbers of a cost model answer, and how sure they are of it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.errors import ConfigError
from harness.model import load
from harness.model.cost import CostModel
from harness.model.estimate import Estimate
from harness.model.figures import Figure, Question, figures, quantile_ratio
from harness.model.load import Traffic
from harness.model.uncertain import UncertainModel


class Word(StrEnum):
    """What to do with the remote tier.

    Turn it on; keep it off; turn it on for prompts over a length, or once it is sharded so that B is enough; measure
    again.
    """

    ON = "on"
    OFF = "off"
    ON_OVER_LENGTH = "on_over_length"
    ON_WITH_SHARDING = "on_with_sharding"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The word, and the figures that decide it (by their names in docs/method.md).

    `needed_instances` (infinite: no number is enough) and `needed_bytes_per_s`, what they deliver together, are those
    with which the tier would pay for what was asked; where that is prompts of any length, it then pays for those over
    `needed_break_even_tokens`. `open_inputs` are the inputs whose interval leaves it undecided: any of them, known
    exactly, would decide it; empty where only all together would. `trade_off`: nothing is open, hits are shown to lower
    the p99 and to raise the median.
    """

    word: Word
    question: Question
    figures: Mapping[str, Figure]
    needed_instances: float
    needed_bytes_per_s: float
    needed_break_even_tokens: float
    open_inputs: tuple[str, ...] = ()
    trade_off: bool = False

    def estimate(self, name: str) -> Estimate | None:
        """The estimate of a figure; None if there is none."""
        return self.figures[name].estimate if name in self.figures else None


_INPUTS = ("bandwidth_bytes_per_s", "hit_fixed_s", "prefill_tokens_per_s")


def judge_model(model: UncertainModel, question: Question) -> Judgement:
    """Whether the tier pays for what is asked. It does not claim to know where an interval has both answers in it.

    With traffic p99 decides, and p50 must not say the opposite (as for measured runs); with a prompt alone the time of
    one hit; with neither the break-even length. Raises ConfigError if T0 is not known.
    """
    if model.point.hit_fixed_s is None:
        raise ConfigError("T0, the fixed cost of a hit, is not known: no verdict", where="model", remedy="measure it")
    pays = _pays(model, question)
    needed = _needed_instances(model.point, question)
    found = figures(model, question)
    per_instance = model.point.bandwidth_bytes_per_s / question.instances
    opened: tuple[str, ...] = ()
    trade_off = question.traffic is not None and _sides(model, question.traffic) == (1, -1)
    if pays is not None:
        word = Word.ON if pays else _instead(model, question, needed)
    elif trade_off:
        word = Word.UNDECIDED
    else:
        reach, longest = found["break_even_tokens"].estimate, question.longest_tokens or math.inf
        over = question.prompt_tokens is None and reach.high is not None and reach.high < longest
        word = Word.ON_OVER_LENGTH if over else Word.UNDECIDED
        opened = () if over else tuple(one for one in _INPUTS if _pays(model.holding(one), question) is not None)
    once = model.point.instances(needed / question.instances) if math.isfinite(needed) else model.point
    return Judgement(
        word, question, found, needed, needed * per_instance, once.break_even.tokens, opened, trade_off=trade_off
    )


def _pays(model: UncertainModel, question: Question) -> bool | None:
    """Whether it pays for all that is asked; None where the intervals allow both."""
    if question.traffic is not None:
        p50, p99 = _sides(model, question.traffic)
        if p99 < 0 and p50 <= 0:
            return True
        return False if p99 > 0 or (p99 == 0 and p50 > 0) else None
    if question.prompt_tokens is not None:
        tokens = question.prompt_tokens
        side = _side(model, lambda m: m.hit_s(tokens) / m.recompute_s(tokens))
        return None if side == 0 else side < 0
    reach = model.estimate(lambda m: m.break_even.tokens)
    if reach.low is None or reach.high is None:
        return None
    return True if reach.high == 0 else False if math.isinf(reach.low) else None


def _sides(model: UncertainModel, traffic: Traffic) -> tuple[int, int]:
    """`_side` of the ratios at p50 and p99."""
    p50, p99 = (_side(model, lambda m, q=q: quantile_ratio(m, traffic, q)) for q in (0.5, 0.99))  # type: ignore[misc]
    return p50, p99


def _side(model: UncertainModel, ratio: Callable[[CostModel], float]) -> int:
    """-1 if the ratio is below 1 in its whole interval, 1 if above, 0 if neither."""
    found = model.estimate(ratio)
    low, high = found.low, found.high
    if low is None or high is None:
        return 0
    return -1 if high < 1 else 1 if low > 1 else 0


def _instead(model: UncertainModel, question: Question, needed: float) -> Word:
    """What is left where it does not pay for what was asked: more instances, longer prompts, or nothing."""
    most = math.inf if question.most_instances is None else question.most_instances
    if math.isfinite(needed) and needed <= most:
        return Word.ON_WITH_SHARDING
    return Word.ON_OVER_LENGTH if _longer_prompts_pay(model, question) else Word.OFF


def _longer_prompts_pay(model: UncertainModel, question: Question) -> bool:
    """Whether n* is longer than what was asked and there are such prompts, for which the tier has a steady state."""
    reach = model.estimate(lambda m: m.break_even.tokens)
    longest = math.inf if question.longest_tokens is None else question.longest_tokens
    prompt = question.prompt_tokens
    if prompt is None or reach.high is None or math.isinf(reach.high) or not prompt < reach.high <= longest:
        return False
    if question.traffic is None:
        return True
    longer = replace(question.traffic, prompt_tokens=max(reach.value, prompt))
    return load.highest_stable_rate(model.point, longer) > longer.requests_per_s


def _needed_instances(model: CostModel, question: Question) -> float:
    """The fewest equal instances with which the tier pays for what is asked; infinite: no number does."""
    one = model.instances(1 / question.instances)
    if question.prompt_tokens is None:  # above B*, some length pays
        return math.floor(one.bstar_bytes_per_s / one.bandwidth_bytes_per_s) + 1
    if question.traffic is None:
        return one.shards_for_median(question.prompt_tokens)
    traffic = question.traffic
    target_s = [load.recompute_quantile_s(model, traffic, quantile) for quantile in (0.5, 0.99)]
    for_p50, for_p99 = (
        load.shards_for_quantile(one, traffic, quantile, time_s)
        for quantile, time_s in zip((0.5, 0.99), target_s, strict=True)
    )
    hits = traffic.hits_per_s
    for_rate = one.shards_needed(hits, traffic.prompt_tokens, load.ROUTED_RHO) if hits else 1
    return max(for_p50, for_p99, for_rate)
