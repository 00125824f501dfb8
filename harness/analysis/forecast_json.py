"""A judgement as a JSON document."""

import math
from typing import Any

from harness.analysis.verdict import Verdict
from harness.model import Estimate
from harness.model.figures import Figure
from harness.model.verdict import Judgement


def forecast_json(judgement: Judgement, verdict: Verdict) -> dict[str, Any]:
    """Figures by name, each with value, low, high, unit and method, and the verdict; names: docs/method.md.

    A number that is infinite (never, or without end) is the text "infinite", since JSON has none.
    """
    question = judgement.question
    return {
        "question": {
            "prompt_tokens": question.prompt_tokens,
            "requests_per_s": None if question.traffic is None else question.traffic.requests_per_s,
            "hit_share": None if question.traffic is None else question.traffic.hit_share,
            "loads_in_step": None if question.traffic is None else question.traffic.in_step,
            "instances": question.instances,
        },
        "verdict": {
            "word": verdict.word.value,
            "sentence": verdict.sentence,
            "answers": [{"question": answer.question, "text": answer.text} for answer in verdict.answers],
            "needed_instances": _number(judgement.needed_instances),
            "needed_bytes_per_s": _number(judgement.needed_bytes_per_s),
            "needed_break_even_tokens": _number(judgement.needed_break_even_tokens),
            "open_inputs": list(judgement.open_inputs),
            "trade_off": judgement.trade_off,
        },
        "figures": {name: figure_json(figure) for name, figure in judgement.figures.items()},
    }


def figure_json(figure: Figure) -> dict[str, Any]:
    """One figure."""
    return {"unit": figure.unit, **estimate_json(figure.estimate)}


def estimate_json(estimate: Estimate) -> dict[str, Any]:
    """One estimate."""
    return {
        "value": _number(estimate.value),
        "low": _number(estimate.low),
        "high": _number(estimate.high),
        "n": estimate.n,
        "method": estimate.method,
    }


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else "infinite"
