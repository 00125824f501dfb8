"""index.html: all runs of a folder, newest first, with a small line of p99 TTFT for each arm."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.analysis.runs import RunLine, newest_first
from harness.analysis.wording import digits
from harness.report.template import render

_WIDTH, _HEIGHT, _EDGE = 160, 36, 3


@dataclass(frozen=True, slots=True)
class Spark:
    """A line of small size: SVG points, oldest run first, and what it begins and ends with (ms)."""

    arm: str
    points: str
    last_x: float
    last_y: float
    first: str
    last: str
    runs: int


def render_index(lines: Sequence[RunLine]) -> str:
    """The index as one HTML document, without scripts and without anything from elsewhere."""
    experiments = []
    for name, runs in newest_first(lines).items():
        arms = list(dict.fromkeys(arm for run in runs for arm in run.p99_ms or {}))
        sparks = [spark for arm in arms if (spark := _spark(arm, runs)) is not None]
        rows = [(run, [_cell(run, arm) for arm in arms]) for run in runs]
        experiments.append((name, arms, sparks, rows))
    return render("index.html.j2", experiments=experiments, width=_WIDTH, height=_HEIGHT)


def _cell(run: RunLine, arm: str) -> str:
    value = (run.p99_ms or {}).get(arm)
    return "-" if value is None else digits(value)


def _spark(arm: str, runs: Sequence[RunLine]) -> Spark | None:
    values = [run.p99_ms[arm] for run in reversed(runs) if run.p99_ms and arm in run.p99_ms]
    if len(values) < 2:
        return None
    low, high = min(values), max(values)
    span, step = (high - low) or 1.0, (_WIDTH - 2 * _EDGE) / max(1, len(values) - 1)
    places = [
        (round(_EDGE + at * step, 1), round(_HEIGHT - _EDGE - (value - low) / span * (_HEIGHT - 2 * _EDGE), 1))
        for at, value in enumerate(values)
    ]
    points = " ".join(f"{x},{y}" for x, y in places)
    return Spark(arm, points, *places[-1], digits(values[0]), digits(values[-1]), len(values))
