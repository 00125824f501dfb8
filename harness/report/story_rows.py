"""Tables of what a story holds, as text."""

from harness.analysis import Finding, Story, Summary
from harness.analysis.wording import digits
from harness.report.cells import MISSING, Table, table_by_pass


def sources_table(story: Story) -> Table:
    """Where the prompt tokens of each pass came from, by the engine's counters."""
    headers = ("workload/pass", "arm", "prompt tokens computed", "local hit", "external hit")
    lines = (
        (f"{one.workload}/{one.pass_name}", one.arm, *(f"{tokens:,}" for tokens in one.tokens.values()))
        for one in story.sources
    )
    return table_by_pass(headers, lines)


def published_table(story: Story) -> Table:
    """Ten documents: p50 and mean TTFT as published and ours, pass by pass."""
    headers = ("workload/pass", "with", "published: p50 ms", "mean ms", "ours: p50 ms", "mean ms")
    lines = (
        (
            *(f"{one.workload}/{one.pass_name}", one.configuration),
            *(digits(value) for value in (one.published_p50_ms, one.published_mean_ms)),
            *(MISSING if value is None else digits(value) for value in (one.ours_p50_ms, one.ours_mean_ms)),
        )
        for one in story.published
    )
    return table_by_pass(headers, lines)


def prediction_table(story: Story) -> Table:
    """Cached tokens as an infinite cache would have them and as counted, by workload and pass, then arm."""
    headers = ("workload/pass", "arm", "requests", "cached in an infinite cache", "measured", "requests as there")
    lines = (
        (
            *(f"{one.workload}/{one.pass_name}", one.arm, f"{one.requests:,}"),
            *(f"{count:,}" for count in (one.predicted_tokens, one.measured_tokens, one.exact)),
        )
        for one in story.predictions
    )
    return table_by_pass(headers, lines)


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
    lines = ((*where, *(_plain(found.get(name)) for name in names)) for where, found in cells.items())
    return table_by_pass(headers, lines)


def _plain(finding: Finding | None) -> str:
    if finding is None:
        return MISSING
    value = finding.estimate.value
    if finding.unit == "ms/s":
        return f"{round(value, 1) + 0.0:,}"  # a steady state's slope is noise; adding 0.0 takes the sign of -0.0
    if finding.unit == "requests":
        return f"{value:,.0f} of {finding.estimate.n:,}"
    return f"{value:,.0f}" if finding.unit == "tokens" else digits(value)
