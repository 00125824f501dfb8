"""Tables of what a story holds, as text."""

from dataclasses import dataclass

from harness.analysis import Story
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
