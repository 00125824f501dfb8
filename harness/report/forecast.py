"""A forecast as text: the word, the sentence, the three answers, and every figure with its interval."""

import math
from collections.abc import Iterator, Mapping

from harness.analysis.verdict import Verdict
from harness.analysis.wording import digits, rate
from harness.model import Estimate
from harness.model.figures import Figure


def render_forecast(verdict: Verdict, figures: Mapping[str, Figure]) -> str:
    """Lines for a terminal; figures have their names in docs/method.md."""
    lines = [f"verdict: {verdict.word.value}", verdict.sentence, ""]
    for answer in verdict.answers:
        lines += [answer.question, f"  {answer.text}"]
    return "\n".join([*lines, "", *figure_lines(figures)])


def figure_lines(figures: Mapping[str, Figure]) -> Iterator[str]:
    """One line a figure: name, value and unit, interval."""
    width = max((len(name) for name in figures), default=0)
    for name, figure in figures.items():
        yield f"{name:{width}}  {figure_text(figure)}"


def figure_text(figure: Figure) -> str:
    """Value and unit, and the interval where there is one that is wider than a point."""
    one, unit = figure.estimate, figure.unit
    text = _value(one.value, unit)
    return text if _is_point(one) else f"{text}  [{_value(one.low, unit)}, {_value(one.high, unit)}]"


def _is_point(estimate: Estimate) -> bool:
    return estimate.low is None or estimate.low == estimate.high


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "unknown"
    if math.isinf(value):
        return {"requests/s": "without limit", "tokens": "never", "instances": "never", "s": "without end"}.get(
            unit, "infinite"
        )
    if unit == "bytes/s":
        return rate(value)
    if unit == "instances":
        return f"{value:,.0f}"
    text = f"{value:.3g}" if 0 < value < 1e-4 else digits(value, 4)
    return f"{text} {unit}".strip()
