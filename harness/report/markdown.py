"""report.md: what the page says, without its pictures."""

from collections.abc import Iterable, Sequence

from harness.analysis import Story, Summary
from harness.analysis.slices import LENGTH, LOOKUP
from harness.report.client_error import HEADERS as ERROR_HEADERS
from harness.report.client_error import error_rows, selftest_line
from harness.report.rows import (
    HEADERS,
    LATENCIES,
    RATES,
    SLICE_HEADERS,
    Columns,
    further_rows,
    machine_rows,
    slice_rows,
    table_rows,
)
from harness.report.score import HEADERS as SCORE_HEADERS
from harness.report.score import WINNER_HEADERS, score_rows, winner_rows
from harness.report.story_rows import Table, prediction_table, published_table, simulated_table


def render_markdown(summary: Summary, story: Story) -> str:
    """The report as a Markdown document that ends with a newline."""
    caveats = [
        f"- **{caveat.kind}**: {_inline(caveat.text)}{f' (to do: {_inline(caveat.remedy)})' if caveat.remedy else ''}"
        for caveat in summary.caveats
    ]
    parts = [
        f"# {_inline(summary.facts.get('experiment', 'run'))}: {summary.verdict.word.value}",
        _inline(summary.verdict.sentence),
        "## TTFT and cache hits\n\nIn brackets: 95 % intervals. Every number is defined in docs/method.md.",
        _table(HEADERS, (row.cells for row in table_rows(summary, intervals=True))),
        "## Other latencies",
        _further(summary, LATENCIES),
        "## Throughput, hit rates, steadiness",
        _further(summary, RATES),
        *_slices(summary, LOOKUP, "## By lookup outcome"),
        *_slices(summary, LENGTH, "## By prompt length"),
        *_titled("## Beside a published measurement: p50 TTFT of ten documents", published_table(story)),
        *_titled("## Prediction, simulated beforehand, against measurement", simulated_table(summary)),
        *_titled("## Hits beside those of an infinite cache", prediction_table(story)),
        "## Caveats",
        "\n".join(caveats) or "None.",
        "## Validity checks",
        _table(("", "check", "seen"), ((str(one.held.value), one.promise, one.detail) for one in story.validity)),
        "## Machine",
        _table(("of", "name", "value", "from"), machine_rows(summary)),
        *_score(summary),
        "## The client's own error",
        _inline(selftest_line(summary.selftest)) + ("; p50 / p99 / max, ms." if summary.selftest else "."),
        *([_table(ERROR_HEADERS, error_rows(summary.selftest["errors"]))] if summary.selftest else []),
        "## Facts",
        _table(("fact", "value"), summary.facts.items()),
        "## To repeat it",
        "```\n" + "\n".join(" ".join(line.split()) for line in story.commands) + "\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _score(summary: Summary) -> list[str]:
    rows = score_rows(summary)
    if not rows:
        return []
    winners = winner_rows(summary)
    return ["## Prediction and measurement", _table(SCORE_HEADERS, rows), _table(WINNER_HEADERS, winners)]


def _slices(summary: Summary, key: str, title: str) -> list[str]:
    rows = slice_rows(summary, key)
    return [title, _table(SLICE_HEADERS, (row.cells for row in rows))] if rows else []


def _further(summary: Summary, columns: Columns) -> str:
    headers, rows = further_rows(summary, columns)
    return _table(headers, (row.cells for row in rows))


def _titled(title: str, table: Table) -> list[str]:
    return [title, _table(table.headers, (row.cells for row in table.rows))] if table.rows else []


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(_inline(cell) for cell in line)} |" for line in lines)


def _inline(text: str) -> str:
    """`text` on one line, with what Markdown would take for markup made harmless."""
    flat = " ".join(text.split())
    for mark in ("\\", "|", "*", "_", "`", "<", "["):
        flat = flat.replace(mark, f"\\{mark}")
    return flat
