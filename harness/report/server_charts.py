"""Charts of the servers and of the model: queues, bandwidth, sources of tokens, parts of TTFT, break-even, capacity."""

import math
from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go

from harness.analysis import Finding
from harness.analysis.break_even import BreakEven
from harness.analysis.measured import OPEN_LOOP_PASS
from harness.analysis.sources import TokenSources
from harness.analysis.story import CapacityCurve
from harness.analysis.timelines import Timeline
from harness.analysis.wording import digits
from harness.report.look import COLOURS, DASHES, SYMBOLS, framed, log_axis, nth

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


def part_bars(findings: Sequence[Finding]) -> list[go.Figure]:
    """A chart a pass, replays first: parts of the mean TTFT as shares of it, a bar an arm, the mean above each bar."""
    passes: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for finding in findings:
        if finding.name in _PARTS:
            arms = passes.setdefault((finding.by["workload"], finding.by["pass"]), {})
            arms.setdefault(finding.by["arm"], {})[finding.name] = finding.estimate.value
    ordered = sorted(passes, key=lambda one: one[1] != OPEN_LOOP_PASS)
    return [_part_bars(f"{workload}/{name}", passes[workload, name]) for workload, name in ordered]


def _part_bars(title: str, arms: Mapping[str, Mapping[str, float]]) -> go.Figure:
    totals = {arm: sum(parts.values()) for arm, parts in arms.items()}
    bars = [arm for arm, total in totals.items() if total > 0]
    figure = go.Figure()
    for name, (label, colour, pattern) in _PARTS.items():
        if any(name in arms[arm] for arm in bars):
            figure.add_bar(
                x=bars,
                y=[round(arms[arm].get(name, 0.0) / totals[arm], 4) for arm in bars],
                customdata=[float(f"{arms[arm].get(name, 0.0):.5g}") for arm in bars],
                name=label,
                marker={"color": colour, "pattern": {**_PATTERN, "shape": pattern}},
                hovertemplate="%{customdata:,} ms, %{y:.1%} of the mean",
            )
    tops, bottoms = ([_stacked(arms[arm].values(), totals[arm], sign) for arm in bars] for sign in (1, -1))
    figure.add_scatter(
        x=bars,
        y=tops,
        text=[digits(totals[arm]) for arm in bars],
        mode="text",
        textposition="top center",
        textfont={"size": 10},
        showlegend=False,
        hoverinfo="skip",
    )
    figure.update_layout(barmode="relative")
    reach = [min([-0.02, *bottoms]), max([1.0, *tops]) + 0.12]
    figure.update_yaxes(title="share of the mean TTFT (ms above)", tickformat=".0%", range=reach)
    return _legend_on_top(framed(figure, title, height=400))


def _stacked(parts: Iterable[float], total: float, sign: int) -> float:
    """How far the parts of one sign reach, as a share of the total."""
    return sum(part for part in parts if part * sign > 0) / total


def cost(model: BreakEven) -> go.Figure:
    """Right of B* a hit can win, above its arm's line it does; each arm stands at its bandwidth and its median hit."""
    figure = go.Figure()
    lengths = [point.hit_tokens for point in model.points]
    top = 20 * max(lengths)  # near B* the lines leave for infinity
    lines = [length for point in model.points for _, length in point.line if length < top]
    for at, point in enumerate(model.points):
        colour = nth(COLOURS, at)
        figure.add_scatter(
            x=[float(f"{x / _MB:.5g}") for x, _ in point.line],
            y=[float(f"{y:.5g}") for _, y in point.line],
            legendgroup=point.arm,
            showlegend=False,
            mode="lines",
            line={"color": colour, "dash": nth(DASHES, at)},
            hovertemplate="%{x:.4g} MB/s: %{y:.4g} tokens",
        )
        figure.add_scatter(
            x=[float(f"{point.bandwidth_bytes_per_s / _MB:.5g}")],
            y=[point.hit_tokens],
            name=point.arm,
            legendgroup=point.arm,
            mode="markers",
            # arms may stand at one place: a larger mark below, a smaller one above
            marker={"color": colour, "symbol": nth(SYMBOLS, at), "size": 18 - 3 * (at % 4)},
            hovertemplate="%{x:.4g} MB/s, median hit %{y:,} tokens",
        )
    star = float(f"{model.bstar_bytes_per_s / _MB:.4g}")
    figure.add_vline(x=star, line={"dash": "dash", "width": 1.5, "color": "#999999"})
    figure.add_annotation(
        x=math.log10(star), y=0.0, yref="paper", text=f"B* {star:g} MB/s ", showarrow=False, xanchor="right"
    )
    speeds = (one / _MB for one in (model.bstar_bytes_per_s, *(point.bandwidth_bytes_per_s for point in model.points)))
    figure.update_xaxes(title="bandwidth of all links together, MB/s (log)", **log_axis((*speeds, 10 * star)))
    figure.update_yaxes(title="tokens of a hit (log)", **log_axis([*lengths, *lines, top]))
    return framed(figure, "Break-even of a hit", height=400)


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
    figure.update_xaxes(title="capacity, tokens (log)", **log_axis(x for curve in curves for x, _ in curve.points))
    figure.update_yaxes(title="hit rate", tickformat=".0%", rangemode="tozero")
    return framed(figure, "Hit rate against capacity")


def _legend_on_top(figure: go.Figure) -> go.Figure:
    """On a phone the names of the bars stand upright and need the room below."""
    return figure.update_layout(legend={"y": 1.0, "yanchor": "bottom"}, margin={"t": 84}, title={"y": 0.98})
