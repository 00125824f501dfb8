"""Charts of the servers and of the model: queues, bandwidth, sources of tokens, parts of TTFT, break-even, capacity."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from harness.analysis import Finding
from harness.analysis.break_even import BreakEven
from harness.analysis.sources import TokenSources
from harness.analysis.story import CapacityCurve
from harness.analysis.timelines import Timeline
from harness.report.look import COLOURS, DASHES, SYMBOLS, framed, log_ticks, nth

_SOURCES = {
    "local_compute": ("computed", "#D55E00", ""),
    "local_cache_hit": ("local hit", "#0072B2", "/"),
    "external_kv_transfer": ("external hit", "#009E73", "x"),
}
_PARTS = {
    "queue_mean": ("queue", "#E69F00", ""),
    "load_wait_mean": ("wait for other loads", "#56B4E9", "."),
    "load_mean": ("load", "#009E73", "x"),
    "recompute_mean": ("recompute", "#D55E00", "/"),
    "delivery_mean": ("delivery", "#CC79A7", "-"),
    "unexplained_mean": ("unexplained", "#999999", "\\"),
}
_PATTERN = {"fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.45, "size": 7}
_MB = 1e6


def queues(lines: Sequence[Timeline]) -> list[go.Figure]:
    """Requests running and waiting, a chart an arm, all with the same height."""
    own = [line for line in lines if line.of == "requests"]
    top = max((max(line.values) for line in own), default=1.0)
    figures = []
    for arm in dict.fromkeys(line.arm for line in own):
        figure = go.Figure()
        for at, line in enumerate(line for line in own if line.arm == arm):
            figure.add_scatter(
                x=[round(t, 2) for t in line.t_s],
                y=list(line.values),
                name=line.name,
                mode="lines",
                line={"color": nth(COLOURS, at), "dash": nth(DASHES, at), "shape": "hv"},
                hovertemplate="%{y} at %{x:.1f} s",
            )
        figure.update_yaxes(title="requests", range=[0, 1.05 * top + 0.5])
        figure.update_xaxes(title="s after the first request")
        figures.append(framed(figure, arm, height=280))
    return figures


def bandwidth(lines: Sequence[Timeline], links: dict[str, float]) -> list[go.Figure]:
    """What each Valkey instance sent, a chart an arm; a dashed line is the rate of one link, where it is known."""
    own = [line for line in lines if line.of == "bandwidth"]
    figures = []
    for arm in dict.fromkeys(line.arm for line in own):
        figure = go.Figure()
        for at, line in enumerate(line for line in own if line.arm == arm):
            figure.add_scatter(
                x=[round(t, 2) for t in line.t_s],
                y=[float(f"{value / _MB:.4g}") for value in line.values],
                name=line.name,
                mode="lines",
                line={"color": nth(COLOURS, at), "width": 1.5},
                hovertemplate="%{y:.3g} MB/s at %{x:.1f} s",
            )
        if arm in links:
            figure.add_hline(y=links[arm] / _MB, line={"dash": "dash", "width": 1, "color": "#999999"})
        figure.update_yaxes(title="sent by an instance, MB/s", rangemode="tozero")
        figure.update_xaxes(title="s after the first request")
        figures.append(framed(figure, arm, height=280))
    return figures


def token_bars(sources: Sequence[TokenSources], workload: str) -> go.Figure:
    """Where the prompt tokens of each pass came from, a bar an arm, as shares of the pass."""
    own = [one for one in sources if one.workload == workload]
    figure = go.Figure()
    for name, (label, colour, pattern) in _SOURCES.items():
        totals = [sum(one.tokens.values()) or 1 for one in own]
        figure.add_bar(
            x=[[one.pass_name for one in own], [one.arm for one in own]],
            y=[round(one.tokens[name] / total, 5) for one, total in zip(own, totals, strict=True)],
            customdata=[one.tokens[name] for one in own],
            name=label,
            marker={"color": colour, "pattern": {**_PATTERN, "shape": pattern}},
            hovertemplate="%{customdata:,} tokens, %{y:.1%}",
        )
    figure.update_layout(barmode="stack")
    figure.update_yaxes(title="share of prompt tokens", tickformat=".0%", range=[0, 1])
    return _legend_on_top(framed(figure, workload, height=380))


def part_bars(findings: Sequence[Finding]) -> go.Figure | None:
    """Mean of each part of TTFT, a bar an arm and pass; None where nobody could tell."""
    told = [finding for finding in findings if finding.name in _PARTS]
    if not told:
        return None
    cells = list(dict.fromkeys((f.by["workload"], f.by["pass"], f.by["arm"]) for f in told))
    values = {(f.name, f.by["workload"], f.by["pass"], f.by["arm"]): f.estimate for f in told}
    figure = go.Figure()
    for name, (label, colour, pattern) in _PARTS.items():
        own = [values.get((name, *cell)) for cell in cells]
        if any(own):
            figure.add_bar(
                x=[[f"{workload}/{part}" for workload, part, _ in cells], [arm for _, _, arm in cells]],
                y=[None if one is None else float(f"{one.value:.5g}") for one in own],
                customdata=[0 if one is None else one.n for one in own],
                name=label,
                marker={"color": colour, "pattern": {**_PATTERN, "shape": pattern}},
                hovertemplate="%{y:.4g} ms, mean of %{customdata} requests",
            )
    figure.update_layout(barmode="relative")
    figure.update_yaxes(title="mean, ms")
    return _legend_on_top(framed(figure, "Parts of TTFT", height=400))


def cost(model: BreakEven) -> go.Figure:
    """Right of B* a hit can win, above the line it does; each arm stands at its bandwidth and its median hit."""
    figure = go.Figure()
    if model.line:
        figure.add_scatter(
            x=[float(f"{x / _MB:.5g}") for x, _ in model.line],
            y=[float(f"{y:.5g}") for _, y in model.line],
            name="break-even length",
            mode="lines",
            line={"color": COLOURS[0]},
            hovertemplate="%{x:.4g} MB/s: %{y:.4g} tokens",
        )
    for at, point in enumerate(model.points):
        figure.add_scatter(
            x=[float(f"{point.bandwidth_bytes_per_s / _MB:.5g}")],
            y=[point.hit_tokens],
            name=point.arm,
            mode="markers",
            marker={"color": nth(COLOURS, at + 1), "symbol": nth(SYMBOLS, at + 1), "size": 13},
            hovertemplate="%{x:.4g} MB/s, median hit %{y:,} tokens",
        )
    star = float(f"{model.bstar_bytes_per_s / _MB:.4g}")
    figure.add_vline(x=star, line={"dash": "dash", "width": 1.5, "color": "#999999"})
    figure.add_annotation(
        x=math.log10(star), y=1.0, yref="paper", text=f"B* {star:g} MB/s", showarrow=False, xanchor="left"
    )
    figure.update_layout({**log_ticks("x"), **log_ticks("y")})
    figure.update_xaxes(title="bandwidth of all links together, MB/s (log)")
    figure.update_yaxes(title="tokens of a hit (log)")
    return framed(figure, "Break-even of a hit")


def capacity(curves: Sequence[CapacityCurve]) -> go.Figure:
    """Hit rate against the capacity of a cache."""
    figure = go.Figure()
    for at, curve in enumerate(curves):
        figure.add_scatter(
            x=[tokens for tokens, _ in curve.points],
            y=[rate for _, rate in curve.points],
            name=curve.name,
            mode="lines",
            line={"color": nth(COLOURS, at), "dash": nth(DASHES, at)},
            hovertemplate="%{y:.1%} at %{x:,.0f} tokens",
        )
    figure.update_layout(log_ticks("x"))
    figure.update_xaxes(title="capacity, tokens (log)")
    figure.update_yaxes(title="hit rate", tickformat=".0%", rangemode="tozero")
    return framed(figure, "Hit rate against capacity")


def _legend_on_top(figure: go.Figure) -> go.Figure:
    """On a phone the names of the bars stand upright and need the room below."""
    return figure.update_layout(legend={"y": 1.0, "yanchor": "bottom"}, margin={"t": 62}, title={"y": 0.97})
