"""Charts of single requests: each one's TTFT over time, and how TTFT is distributed."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from harness.analysis import Picture, Trail
from harness.report.look import COLOURS, DASHES, Drawn, framed, log_axis, nth

_LOOKUPS = {
    "miss": ("#D55E00", "x"),
    "local hit": ("#0072B2", "circle"),
    "external hit": ("#009E73", "diamond"),
    "hit": ("#56B4E9", "square"),
    "unknown": ("#999999", "cross"),
}
_HOVER = (
    "due %{x:.2f} s<br>TTFT %{y:.4g} ms<br>seq %{customdata[0]}, row %{customdata[1]}<br>"
    "prompt %{customdata[2]} tokens, cached %{customdata[3]}%{customdata[4]}"
)


def incident(picture: Picture) -> list[Drawn]:
    """A chart an arm, all with the same axes: a queue that grows is a line that climbs."""
    ttft = log_axis(value for trail in picture.trails for value in trail.ttft_ms)
    last = max((max(trail.due_s) for trail in picture.trails), default=1.0)
    due = {"range": [-0.02 * last, 1.02 * last]}
    return [_incident(trail, picture.recompute_p50_ms, ttft, due) for trail in picture.trails]


def _incident(trail: Trail, recompute_p50_ms: float | None, ttft: dict[str, Any], due: dict[str, Any]) -> Drawn:
    traces = []
    for lookup, (colour, symbol) in _LOOKUPS.items():
        at = [place for place, found in enumerate(trail.lookup) if found == lookup]
        if at:
            traces.append(
                {
                    "type": "scatter",
                    "x": [round(trail.due_s[place], 3) for place in at],
                    "y": [float(f"{trail.ttft_ms[place]:.5g}") for place in at],
                    "customdata": [_told(trail, place) for place in at],
                    "name": lookup,
                    "mode": "markers",
                    "marker": {"color": colour, "symbol": symbol, "size": 6, "opacity": 0.8},
                    "hovertemplate": _HOVER,
                }
            )
    figure = go.Figure()
    figure.update_yaxes(title="TTFT, ms (log)", **ttft)
    figure.update_xaxes(title="due, s after the first request", **due)
    if recompute_p50_ms is not None and recompute_p50_ms > 0:
        figure.add_hline(y=float(f"{recompute_p50_ms:.5g}"), line={"dash": "dash", "width": 1, "color": "#999999"})
    shown = len(trail.due_s)
    thinned = f" ({shown:,} of {trail.total:,})" if shown < trail.total else ""
    # plotly would look at each of the points before it writes them down: that takes longer than all the rest
    return {"data": traces, "layout": framed(figure, f"{trail.arm}{thinned}", height=300).to_dict()["layout"]}


def _told(trail: Trail, place: int) -> list[int | str]:
    cached = trail.cached_tokens[place]
    text = "".join(f"<br>{name.replace('_', ' ')} {value:.4g} ms" for name, value in trail.parts_ms[place].items())
    return [
        trail.seq[place],
        trail.row[place],
        trail.prompt_tokens[place],
        "unknown" if cached is None else cached,
        text,
    ]


def distribution(picture: Picture, arms: Sequence[str]) -> go.Figure:
    """The share of requests that took at most so long, a line an arm."""
    figure = go.Figure()
    for trail in picture.trails:
        at = arms.index(trail.arm)
        figure.add_scatter(
            x=[float(f"{value:.5g}") for value in trail.sorted_ttft_ms],
            y=[round(share, 5) for share in trail.share],
            name=trail.arm,
            mode="lines",
            line={"color": nth(COLOURS, at), "dash": nth(DASHES, at), "shape": "hv"},
            hovertemplate="%{y:.1%} within %{x:.4g} ms",
        )
    times = (value for trail in picture.trails for value in trail.sorted_ttft_ms)
    figure.update_xaxes(title="TTFT, ms (log)", **log_axis(times))
    figure.update_yaxes(title="share of requests", tickformat=".0%", range=[0, 1.02])
    return framed(figure, f"{picture.workload}/{picture.pass_name}")
