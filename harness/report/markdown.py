"""report.md: the verdict, the table with intervals, the caveats, the facts."""

from collections.abc import Iterable, Sequence

from harness.analysis import Summary
from harness.report.client_error import HEADERS as ERROR_HEADERS
from harness.report.client_error import error_rows, selftest_line
from harness.report.rows import HEADERS, machine_rows, table_rows
from harness.report.score import HEADERS as SCORE_HEADERS
from harness.report.score import WINNER_HEADERS, score_rows, winner_rows


def render_markdown(summary: Summary) -> str:
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
        "## Caveats",
        "\n".join(caveats) or "None.",
        "## Machine",
        _table(("of", "name", "value", "from"), machine_rows(summary)),
        *_score(summary),
        "## The client's own error",
        _inline(selftest_line(summary.selftest)) + ("; p50 / p99 / max, ms." if summary.selftest else "."),
        *([_table(ERROR_HEADERS, error_rows(summary.selftest["errors"]))] if summary.selftest else []),
        "## Facts",
        _table(("fact", "value"), summary.facts.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _score(summary: Summary) -> list[str]:
    rows = score_rows(summary)
    if not rows:
        return []
    winners = winner_rows(summary)
    return ["## Prediction and measurement", _table(SCORE_HEADERS, rows), _table(WINNER_HEADERS, winners)]


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(_inline(cell) for cell in line)} |" for line in lines)


def _inline(text: str) -> str:
    """`text` on one line, with what Markdown would take for markup made harmless."""
    flat = " ".join(text.split())
    for mark in ("\\", "|", "*", "_", "`", "<", "["):
        flat = flat.replace(mark, f"\\{mark}")
    return flat
