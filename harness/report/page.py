"""report.html: one file that needs no network, with the verdict on top and the pictures behind it."""

from collections.abc import Sequence
from importlib.resources import files

import plotly.graph_objects as go
from jinja2 import Environment, StrictUndefined

from harness.analysis import Picture, Summary, Trail
from harness.report.client_error import HEADERS as ERROR_HEADERS
from harness.report.client_error import error_rows, selftest_line
from harness.report.rows import HEADERS, TEXT_COLUMNS, machine_rows, table_rows

# Okabe and Ito's palette (2008), told apart with any colour vision; symbols and dashes repeat the distinction.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_SYMBOLS = ("circle", "x", "diamond", "triangle-up", "square", "cross", "star")
_HOVER = "due %{x:.2f} s<br>TTFT %{y:.4g} ms<br>seq %{customdata[0]}<br>cached tokens %{customdata[1]}"
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def render_page(summary: Summary, pictures: Sequence[Picture]) -> str:
    """The report as one HTML document; plotly's script is inside, once, whatever the number of pictures."""
    arms = list(dict.fromkeys(trail.arm for picture in pictures for trail in picture.trails))
    figures = [
        figure
        for picture in pictures
        for figure in ([_incident(picture, arms)] if picture.open_loop else []) + [_distribution(picture, arms)]
    ]
    charts = [
        figure.to_html(full_html=False, include_plotlyjs=position == 0, div_id=f"chart-{position}")
        for position, figure in enumerate(figures)
    ]
    source = files("harness.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(source)
    return template.render(
        title=summary.facts.get("experiment", "run"),
        verdict=summary.verdict,
        headers=HEADERS,
        text_columns=TEXT_COLUMNS,
        rows=table_rows(summary, intervals=True),
        charts=charts,
        caveats=summary.caveats,
        machine=machine_rows(summary),
        selftest_line=selftest_line(summary.selftest),
        error_headers=ERROR_HEADERS,
        error_rows=error_rows(summary.selftest["errors"]) if summary.selftest else [],
        facts=summary.facts,
    )


def _incident(picture: Picture, arms: Sequence[str]) -> go.Figure:
    """TTFT of each request over its due time: a queue that grows is a line that climbs."""
    figure = go.Figure()
    for trail in picture.trails:
        at = arms.index(trail.arm)
        marker = {"color": _COLOURS[at % len(_COLOURS)], "symbol": _SYMBOLS[at % len(_SYMBOLS)], "size": 6}
        figure.add_scatter(
            x=list(trail.due_s),
            y=list(trail.ttft_ms),
            customdata=_hover(trail),
            name=trail.arm,
            mode="markers",
            marker=marker,
            hovertemplate=_HOVER,
        )
    title = f"{picture.workload}/{picture.pass_name}: TTFT of each request"
    figure.update_yaxes(type="log", title="TTFT, ms (log)")
    figure.update_xaxes(title="due, s after the first request")
    return figure.update_layout(title=title, template="plotly_white")


def _distribution(picture: Picture, arms: Sequence[str]) -> go.Figure:
    figure = go.Figure()
    for trail in picture.trails:
        at = arms.index(trail.arm)
        figure.add_scatter(
            x=list(trail.sorted_ttft_ms),
            y=list(trail.share),
            name=trail.arm,
            mode="lines",
            line={"color": _COLOURS[at % len(_COLOURS)], "dash": _DASHES[at % len(_DASHES)], "shape": "hv"},
            hovertemplate="%{y:.1%} within %{x:.4g} ms",
        )
    title = f"{picture.workload}/{picture.pass_name}: distribution of TTFT"
    figure.update_xaxes(type="log", title="TTFT, ms (log)")
    figure.update_yaxes(title="share of requests", tickformat=".0%", range=[0, 1.02])
    return figure.update_layout(title=title, template="plotly_white")


def _hover(trail: Trail) -> list[tuple[int, int | str]]:
    cached = ["unknown" if tokens is None else tokens for tokens in trail.cached_tokens]
    return list(zip(trail.seq, cached, strict=True))
