"""report.html: one file that needs no network, read from the top: the verdict, the numbers, what is behind them."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.analysis import Story, Summary
from harness.analysis.slices import LENGTH, LOOKUP
from harness.analysis.wording import digits
from harness.report import request_charts, server_charts
from harness.report.client_error import HEADERS as ERROR_HEADERS
from harness.report.client_error import error_rows, selftest_line
from harness.report.look import Drawn, to_html
from harness.report.rows import (
    HEADERS,
    LATENCIES,
    RATES,
    SLICE_HEADERS,
    TEXT_COLUMNS,
    Columns,
    Row,
    further_rows,
    machine_rows,
    slice_rows,
    table_rows,
)
from harness.report.story_rows import Table, prediction_table, published_table, simulated_table
from harness.report.template import render


@dataclass(frozen=True, slots=True)
class Grid:
    """Charts that belong together, beside each other where there is room. `ids` become those of their elements."""

    title: str
    note: str
    figures: tuple[Drawn, ...]


def render_page(summary: Summary, story: Story) -> str:
    """The report as one HTML document; plotly's script is inside, once, whatever the number of charts."""
    number = 0
    drawn: dict[str, list[tuple[str, str, list[str]]]] = {}
    for section, grids in _sections(summary, story).items():
        drawn[section] = []
        for grid in grids:
            charts = []
            for figure in grid.figures:
                charts.append(to_html(figure, number))
                number += 1
            drawn[section].append((grid.title, grid.note, charts))
    return render(
        "page.html.j2",
        title=summary.facts.get("experiment", "run"),
        verdict=summary.verdict,
        arms=Table(HEADERS, tuple(table_rows(summary, intervals=True)), TEXT_COLUMNS),
        latencies=_further(summary, LATENCIES),
        rates=_further(summary, RATES),
        lookups=Table(SLICE_HEADERS, tuple(slice_rows(summary, LOOKUP)), 3),
        lengths=Table(SLICE_HEADERS, tuple(slice_rows(summary, LENGTH)), 3),
        slos=", ".join(f"{slo.metric} within {digits(slo.limit_ms)} ms" for slo in summary.slos),
        published=published_table(story),
        simulated=simulated_table(summary),
        predictions=prediction_table(story),
        drawn=drawn,
        has_charts=number > 0,
        caveats=summary.caveats,
        validity=story.validity,
        machine=machine_rows(summary),
        selftest_line=selftest_line(summary.selftest),
        errors=Table(ERROR_HEADERS, tuple(_errors(summary)), 2),
        facts=summary.facts,
        commands=story.commands,
    )


def _sections(summary: Summary, story: Story) -> dict[str, tuple[Grid, ...]]:
    arms = list(dict.fromkeys(trail.arm for picture in story.pictures for trail in picture.trails))
    links = {f.by["arm"]: f.estimate.value for f in summary.findings if f.name == "link_bytes_per_s"}
    parts = server_charts.part_bars(summary.findings)
    workloads = dict.fromkeys(one.workload for one in story.sources)
    model = story.break_even
    return {
        "incident": tuple(_incidents(story)),
        "distribution": _distributions(story, arms),
        "queues": tuple(_timelines(story, "requests", links)),
        "parts": () if parts is None else (_alone(parts),),
        "sources": tuple(_alone(server_charts.token_bars(story.sources, name)) for name in workloads),
        "bandwidth": tuple(_timelines(story, "bandwidth", links)),
        "cost": (_alone(server_charts.cost(model)),) if model is not None and (model.points or model.line) else (),
        "capacity": (_alone(server_charts.capacity(story.capacity)),) if story.capacity else (),
    }


def _incidents(story: Story) -> Iterator[Grid]:
    for picture in story.pictures:
        if picture.open_loop:
            shown = sum(len(trail.due_s) for trail in picture.trails)
            total = sum(trail.total for trail in picture.trails)
            note = (
                f"{shown:,} of {total:,} requests are drawn: of each arm every one above its 99th percentile, "
                "and every k-th of the others."
                if shown < total
                else ""
            )
            yield Grid(f"{picture.workload}/{picture.pass_name}", note, tuple(request_charts.incident(picture)))


def _distributions(story: Story, arms: list[str]) -> tuple[Grid, ...]:
    """Replays by themselves, closed passes beside each other."""
    replays = [picture for picture in story.pictures if picture.open_loop]
    closed = [picture for picture in story.pictures if not picture.open_loop]
    alone = tuple(_alone(request_charts.distribution(picture, arms)) for picture in replays)
    together = tuple(request_charts.distribution(picture, arms) for picture in closed)
    return (*alone, Grid("", "", together)) if together else alone


def _timelines(story: Story, of: str, links: dict[str, float]) -> Iterator[Grid]:
    for workload, name in dict.fromkeys((line.workload, line.pass_name) for line in story.timelines):
        own = [line for line in story.timelines if (line.workload, line.pass_name) == (workload, name)]
        figures: list[Drawn] = server_charts.queues(own) if of == "requests" else server_charts.bandwidth(own, links)
        if figures:
            yield Grid(f"{workload}/{name}", "", tuple(figures))


def _further(summary: Summary, columns: Columns) -> Table:
    headers, rows = further_rows(summary, columns)
    return Table(headers, tuple(rows), TEXT_COLUMNS)


def _alone(figure: Drawn) -> Grid:
    return Grid("", "", (figure,))


def _errors(summary: Summary) -> list[Row]:
    selftest = summary.selftest
    return [Row(cells, opens=False) for cells in error_rows(selftest["errors"])] if selftest else []
