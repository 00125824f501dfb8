"""Tables of what a story holds, as text."""

from dataclasses import dataclass

from harness.analysis import Finding, Story, Summary
from harness.analysis.wording import digits
from harness.report.rows import Row

_MISSING = "-"


@dataclass(frozen=True, slots=True)
class Table:
    """Headers, lines, and how many columns from the left are text."""

    headers: tuple[str, ...]
    rows: tuple[Row, ...]
    text_columns: int


def published_table(story: Story) -> Table:
    """Ten documents: p50 TTFT as published and ours, pass by pass."""
    headers = ("workload/pass", "published: alone, ms", "with LMCache, ms", "ours: alone, ms", "with LMCache, ms")
    rows = []
    for one in story.published:
        values = (one.published_alone_ms, one.published_host_ms, one.ours_alone_ms, one.ours_host_ms)
        cells = (_MISSING if value is None else digits(value) for value in values)
        rows.append(Row((f"{one.workload}/{one.pass_name}", *cells), opens=False))
    return Table(headers, tuple(rows), 1)


def prediction_table(story: Story) -> Table:
    """Cached tokens as predicted and as counted, by workload and pass, then arm."""
    headers = ("workload/pass", "arm", "requests", "predicted cached tokens", "measured", "requests predicted exactly")
    rows = [
        Row(
            (
                f"{one.workload}/{one.pass_name}",
                one.arm,
                f"{one.requests:,}",
                f"{one.predicted_tokens:,}",
                f"{one.measured_tokens:,}",
                f"{one.exact:,}",
            ),
            opens=False,
        )
        for one in sorted(story.predictions, key=lambda one: (one.workload, one.pass_name))
    ]
    return Table(headers, tuple(rows), 2)


def simulated_table(summary: Summary) -> Table:
    """What was simulated of each arm before it was measured, beside what was measured then."""
    headers = (
        *("workload/pass", "arm", "p50 TTFT predicted, ms", "predicted / measured"),
        *("p99 TTFT predicted, ms", "predicted / measured", "growth predicted, ms/s", "predicted / measured"),
        *("cached tokens predicted", "requests predicted exactly"),
    )
    names = (
        *("predicted_ttft_p50", "predicted_ttft_p50_ratio", "predicted_ttft_p99", "predicted_ttft_p99_ratio"),
        *("predicted_ttft_due_slope", "predicted_ttft_due_slope_ratio"),
        *("predicted_cached_tokens", "predicted_cached_exactly"),
    )
    cells: dict[tuple[str, str], dict[str, Finding]] = {}
    for finding in summary.findings:
        if finding.name in names:
            cells.setdefault((f"{finding.by['workload']}/{finding.by['pass']}", finding.by["arm"]), {})[
                finding.name
            ] = finding
    rows = [Row((*where, *(_plain(found.get(name)) for name in names)), opens=False) for where, found in cells.items()]
    return Table(headers, tuple(sorted(rows, key=lambda row: row.cells[:1])), 2)


def _plain(finding: Finding | None) -> str:
    if finding is None:
        return _MISSING
    value = finding.estimate.value
    if finding.unit == "ms/s":
        return f"{round(value, 1) + 0.0:,}"  # a steady state's slope is noise; adding 0.0 takes the sign of -0.0
    return f"{value:,.0f} of {finding.estimate.n:,}" if finding.unit == "requests" else digits(value)
