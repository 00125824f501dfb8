"""What a cost model's judgement says in words: a sentence, and the three questions with the numbers that decide."""

import math

from harness.analysis.verdict import Answer, Verdict
from harness.analysis.wording import count, digits, rate, times_ms
from harness.model import Estimate
from harness.model.verdict import Judgement, Word

_INPUT_NAMES = {
    "bandwidth_bytes_per_s": "B",
    "hit_fixed_s": "T0",
    "prefill_tokens_per_s": "R",
}


def forecast(judgement: Judgement) -> Verdict:
    """`judgement` as a verdict with its three answers; each number in it is one of the judgement's figures."""
    return Verdict(judgement.word, _sentence(judgement), tuple(_answers(judgement)))


def _sentence(judgement: Judgement) -> str:
    match judgement.word:
        case Word.ON:
            advice = "turn the remote tier on"
        case Word.OFF:
            advice = "keep the remote tier off"
        case Word.ON_OVER_LENGTH:
            advice = f"turn the remote tier on for prompts over {_break_even(judgement)}, and for no shorter ones"
        case Word.ON_WITH_SHARDING:
            advice = f"turn the remote tier on once it has {_needed(judgement)}"
            if judgement.question.prompt_tokens is None:
                advice += f", and then for prompts over {judgement.needed_break_even_tokens:,.0f} tokens"
        case Word.UNDECIDED if judgement.trade_off:
            advice = f"{_trade_off(judgement)}: it depends on which of the two counts"
        case Word.UNDECIDED:
            advice = "undecided: the numbers allow both answers"
    return f"{_asked(judgement)}: {advice}; {'; '.join(_reasons(judgement))}."


def _asked(judgement: Judgement) -> str:
    question = judgement.question
    if question.prompt_tokens is None:
        return "For prompts of any length"
    text = f"For prompts of {question.prompt_tokens:,.0f} tokens"
    return text if question.traffic is None else f"{text} at {digits(question.traffic.requests_per_s)} a second"


def _reasons(judgement: Judgement) -> list[str]:
    reasons = [_bandwidth(judgement)]
    one = _one_hit(judgement)
    reasons.append(one or _reach(judgement))
    if judgement.word is Word.OFF and judgement.question.prompt_tokens is not None:
        reasons.append(
            f"it would pay with {_needed(judgement)}"
            if math.isfinite(judgement.needed_instances)
            else f"no number of instances makes it pay for them{_t0_alone(judgement)}"
        )
    if judgement.trade_off:
        reasons.append(f"the median falls too for prompts over {_break_even(judgement)}")
    elif judgement.word is Word.UNDECIDED:
        reasons.append(_what_would_decide(judgement))
    return reasons


def _trade_off(judgement: Judgement) -> str:
    p50, p99 = (judgement.figures[name].estimate for name in ("p50_ratio", "p99_ratio"))
    return f"hits make the p99 {_times(p99)} that of recomputing, and the median {_times(p50)}"


def _t0_alone(judgement: Judgement) -> str:
    fixed, recompute = judgement.estimate("hit_fixed_s"), judgement.estimate("recompute_s")
    if fixed is None or recompute is None or fixed.value < recompute.value:
        return ""
    return f", since T0 alone takes {times_ms([fixed.value * 1e3])[0]}"


def _bandwidth(judgement: Judgement) -> str:
    star = judgement.estimate("bstar_at_prompt_bytes_per_s") or judgement.figures["bstar_bytes_per_s"].estimate
    own = judgement.figures["bandwidth_bytes_per_s"].estimate
    to_prompt = judgement.estimate("bandwidth_to_prompt_bytes_per_s")
    if to_prompt is None:
        return f"B is {_rate(own)} and B* {_rate(star)}"
    instances = f"{count(judgement.question.instances)} instances"
    return (
        f"B is {_rate(own)} over {instances}, of which one prompt gets {rate(to_prompt.value)} on the mean, since it "
        f"waits for the instance with most of its chunks, and B* is {_rate(star)}"
    )


def _one_hit(judgement: Judgement) -> str:
    hit, recompute = judgement.estimate("hit_s"), judgement.estimate("recompute_s")
    if hit is None or recompute is None:
        return ""
    pair = times_ms([hit.value * 1e3, recompute.value * 1e3])
    return f"one hit takes {pair[0]}, recomputing {pair[1]}"


def _break_even(judgement: Judgement) -> str:
    return _tokens(judgement.figures["break_even_tokens"].estimate)


def _reach(judgement: Judgement) -> str:
    reach = judgement.figures["break_even_tokens"].estimate
    return "no length breaks even with it" if math.isinf(reach.value) else f"break-even: {_break_even(judgement)}"


def _needed(judgement: Judgement) -> str:
    total, number = judgement.needed_bytes_per_s, judgement.needed_instances
    like = f"like the one{'s' * (judgement.question.instances > 1)} at hand"
    return f"B at least {rate(total)} ({count(int(number))} instance{'s' * (number > 1)} {like})"


def _what_would_decide(judgement: Judgement) -> str:
    names = [f"{_INPUT_NAMES[name]} ({_interval(judgement, name)})" for name in judgement.open_inputs]
    threshold, line = judgement.estimate("bandwidth_needed_bytes_per_s"), ""
    if threshold is not None:
        enough = math.isfinite(threshold.value)
        line = f"; the line is at B = {_rate(threshold)}" if enough else "; at these values no B is enough"
    if not names:
        return f"it takes better values of R, T0 and B together{line}"
    return f"a narrower interval of {' or '.join(names)} would decide{line}"


def _interval(judgement: Judgement, name: str) -> str:
    estimate = judgement.figures[name].estimate
    if name == "bandwidth_bytes_per_s":
        return _rate(estimate)
    unit = judgement.figures[name].unit
    if estimate.low is None or estimate.high is None:
        return f"{digits(estimate.value)} {unit}"
    return f"{digits(estimate.low)} to {digits(estimate.high)} {unit}"


def _answers(judgement: Judgement) -> list[Answer]:
    return [
        Answer("p99 or median?", _of_quantiles(judgement)),
        Answer("Faster, or GPU time given back?", _of_engine(judgement)),
        Answer("Does the topology turn one slow load into a queue?", _of_queue(judgement)),
    ]


def _of_quantiles(judgement: Judgement) -> str:
    hit = [judgement.estimate(f"hit_{name}_s") for name in ("p50", "p99")]
    recompute = [judgement.estimate(f"recompute_{name}_s") for name in ("p50", "p99")]
    if hit[0] and hit[1] and recompute[0] and recompute[1]:
        median = _against(hit[0], recompute[0])
        tail = _against(hit[1], recompute[1])
        return f"The median is {median} (hits against recomputing), the p99 {tail}."
    if judgement.question.prompt_tokens is None:
        reach = judgement.figures["break_even_tokens"].estimate
        which = "for prompts of no length" if math.isinf(reach.value) else f"for prompts over {_break_even(judgement)}"
        return f"Hits are faster {which}; a length and a rate tell more."
    ratio = judgement.figures["hit_over_recompute"].estimate
    return f"One hit takes {_times(ratio)} as long as recomputing; the p99 depends on the rate, which was not given."


def _of_engine(judgement: Judgement) -> str:
    back, recompute = judgement.estimate("engine_s_given_back"), judgement.estimate("recompute_s")
    load, ratio = judgement.estimate("recompute_load"), judgement.estimate("hit_over_recompute")
    if recompute is None:
        return "It depends on the length of prompts, which was not given."
    saved = f"each hit saves {times_ms([recompute.value * 1e3])[0]} of the engine"
    faster = ""
    if ratio is not None and ratio.low is not None and ratio.high is not None:
        word = "Faster" if ratio.high < 1 else "Not faster" if ratio.low > 1 else "Not shown to be faster"
        faster = f"{word}; "
    if back is None or load is None:
        return f"{faster}{saved}."
    total = f"{digits(abs(back.value), 2)} engine seconds a second"
    gain = f"hits give {total} back" if back.value >= 0 else f"loads in the step take {total} more than that"
    full = f"{digits(load.value, 2)} of its time{' (more than there is)' * (load.value >= 1)}"
    return f"{faster}{saved}, and in all {gain}; recomputing everything takes {full}."


def _of_queue(judgement: Judgement) -> str:
    traffic, rho = judgement.question.traffic, judgement.estimate("rho")
    if traffic is None or rho is None:
        return "It depends on the rate, which was not given."
    engine, highest = judgement.estimate("engine_load"), judgement.estimate("highest_rate_per_s")
    busiest = max(rho.value, engine.value if engine is not None else 0.0)
    where = "Loads hold the engine's step, so each stops every rank and request" if traffic.in_step else "Loads wait"
    where += " for as long as it takes" if traffic.in_step else " for the remote tier alone"
    text = f"{where}; rho is {_value(rho)}"
    if engine is not None and traffic.in_step:
        text += f", the engine's load {_value(engine)}"
    if busiest >= 1:
        text += ": yes, the queue grows for as long as requests come"
    elif busiest > 0.8:
        text += ": it is near the edge, where a queue gets long"
    else:
        text += ": no"
    if highest is not None and math.isfinite(highest.value):
        text += f"; stable up to {digits(highest.value)} a second"
    share = judgement.estimate("routed_share")
    if share is not None and share.value < 1:
        text += f"; load {share.value:.0%} of the hits and recompute the others to stay at rho 0.8"
    return f"{text}."


def _against(one: Estimate, other: Estimate) -> str:
    both = (one.value, other.value)
    if any(math.isinf(value) for value in both):
        return " against ".join("without end" if math.isinf(v) else times_ms([v * 1e3])[0] for v in both)
    return " against ".join(times_ms([value * 1e3 for value in both]))


def _value(estimate: Estimate) -> str:
    text = digits(estimate.value)
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return text
    return f"{text} ({digits(estimate.low)} to {digits(estimate.high)})"


def _rate(estimate: Estimate) -> str:
    if math.isinf(estimate.value):
        return "without limit"
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return rate(estimate.value)
    high = rate(estimate.high) if math.isfinite(estimate.high) else "any"
    return f"{rate(estimate.value)} ({rate(estimate.low)} to {high})"


def _times(ratio: Estimate) -> str:
    return f"{_value(ratio)} times"


def _tokens(estimate: Estimate) -> str:
    def one(value: float) -> str:
        return "never" if math.isinf(value) else f"{value:,.0f}"

    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return "no length at all" if math.isinf(estimate.value) else f"{one(estimate.value)} tokens"
    return f"{one(estimate.value)} tokens ({one(estimate.low)} to {one(estimate.high)})"
