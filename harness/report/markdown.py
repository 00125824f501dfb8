"""report.md: what the page says, without its pictures."""

from collections.abc import Iterable, Sequence

from harness.analysis import Story, Summary
from harness.analysis.slices import LENGTH, LOOKUP
from harness.records import Caveat
from harness.report.cells import Table
from harness.report.client_error import HEADERS as ERROR_HEADERS
from harness.report.client_error import error_rows, selftest_line
from harness.report.rows import LATENCIES, PARTS, RATES, arms_table, further_table, machine_rows, slice_table
from harness.report.score import score_table, winner_table
from harness.report.story_rows import prediction_table, published_table, simulated_table, sources_table


def render_markdown(summary: Summary, story: Story) -> str:
    """The report as a Markdown document that ends with a newline."""
    verdict = summary.verdict
    lines = [f"- **{_inline(one.arm)}**, {one.advice}: {_inline(one.text)}" for one in verdict.arms]
    arms = arms_table(summary, intervals=True)
    parts = [
        f"# {_inline(summary.facts.get('experiment', 'run'))}: {verdict.word.value}",
        _inline(verdict.sentence),
        *(["\n".join(lines)] if lines else []),
        "## TTFT and cache hits",
        "In brackets: 95 % intervals, those of p99 approximate. Every number is defined in docs/method.md.",
        _table(arms.headers, (row.cells for row in arms.rows)),
        *_titled("## By lookup outcome", slice_table(summary, LOOKUP)),
        *_titled("## By prompt length", slice_table(summary, LENGTH)),
        *_titled("## Where the time to the first token went", further_table(summary, PARTS)),
        *_titled("## Where prompt tokens came from", sources_table(story)),
        *_titled("## Beside a published measurement: TTFT of ten documents", published_table(story)),
        *_titled("## Prediction, simulated beforehand, against measurement", simulated_table(summary)),
        *_titled("## Prediction by the cost model alone", score_table(summary)),
        *_titled("## The winner, predicted and measured", winner_table(summary)),
        *_titled("## Hits beside those of an infinite cache", prediction_table(story)),
        *_titled("## Other latencies", further_table(summary, LATENCIES)),
        *_titled("## Throughput, hit rates, steadiness", further_table(summary, RATES)),
        "## Caveats",
        "\n".join(map(_caveat, summary.caveats)) or "None.",
        "## The client's own error",
        _inline(selftest_line(summary.selftest)) + ("; p50 / p99 / max, ms." if summary.selftest else "."),
        *([_table(ERROR_HEADERS, error_rows(summary.selftest["errors"]))] if summary.selftest else []),
        "## Validity checks",
        _table(
            ("", "check", "seen"),
            ((str(one.held.value), one.promise, one.detail) for one in (*story.validity, *story.proofs)),
        ),
        "## Machine",
        _table(("of", "name", "value", "from"), machine_rows(summary)),
        "## Facts",
        _table(("fact", "value"), summary.facts.items()),
        "## To repeat it",
        "```\n" + "\n".join(" ".join(line.split()) for line in story.commands) + "\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _caveat(caveat: Caveat) -> str:
    todo = f" (to do: {_inline(caveat.remedy)})" if caveat.remedy else ""
    return "\n".join(
        (f"- **{caveat.kind}**: {_inline(caveat.text)}{todo}", *(f"  - {_inline(line)}" for line in caveat.evidence))
    )


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
