"""How every chart looks: colours that any eye tells apart, frames that fit a phone and either theme."""

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import plotly.graph_objects as go
from plotly.io import to_html as write_html

# Okabe and Ito's palette (2008), told apart with any colour vision; symbols and dashes repeat the distinction.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
SYMBOLS = ("circle", "x", "diamond", "triangle-up", "square", "cross", "star")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_CONFIG = {"responsive": True, "displayModeBar": False}  # dragging zooms, a double click goes back
_HEIGHT = 340
_WIDE, _NARROW = 1.7, 0.7  # powers of ten

Drawn: TypeAlias = "go.Figure | dict[str, Any]"
"""A figure, or what plotly.js reads of it."""


def nth(values: tuple[str, ...], at: int) -> str:
    """Value `at`, from the beginning again where there are not as many."""
    return values[at % len(values)]


def framed(figure: go.Figure, title: str, *, height: int = _HEIGHT, legend: bool = True) -> go.Figure:
    """The figure with the page's frame; colours of text and grid are set by the page, which knows its theme."""
    frame: dict[str, Any] = {
        "template": "none",
        "title": {"text": title, "font": {"size": 14}, "x": 0, "xanchor": "left", "xref": "paper"},
        "height": height,
        "margin": {"l": 62, "r": 12, "t": 38, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "showlegend": legend,
        "legend": {"orientation": "h", "x": 0, "y": -0.22, "yanchor": "top", "traceorder": "normal"},
    }
    figure.update_layout(**frame)
    figure.update_xaxes(automargin=True, title_standoff=6)
    figure.update_yaxes(automargin=True, title_standoff=6)
    return figure


def log_axis(values: Iterable[float]) -> dict[str, Any]:
    """A logarithmic axis for these values, with room around them: each power of ten, in a small range 2 and 5 too."""
    present = [value for value in values if value > 0]
    low, high = (math.log10(min(present)) - 0.08, math.log10(max(present)) + 0.08) if present else (0.0, 1.0)
    steps = (1,) if high - low > _WIDE else (1, 2, 5) if high - low > _NARROW else (1, 1.5, 2, 3, 4, 5, 6, 8)
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    shown = [tick for tick in ticks if low <= math.log10(tick) <= high]
    texts = [f"{tick:,.10g}" for tick in shown]
    return {"type": "log", "range": [low, high], "tickvals": shown, "ticktext": texts}


def to_html(figure: Drawn, number: int) -> str:
    """The figure as a part of the page; plotly's script comes with number 0."""
    first = number == 0
    html: str = write_html(
        figure, full_html=False, include_plotlyjs=first, div_id=f"chart-{number}", config=_CONFIG, validate=False
    )
    return html
