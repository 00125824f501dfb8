"""The tables of findings as text: a line an arm, workload and pass, the arms of one pass beside each other."""

import math
from collections.abc import Iterator, Mapping, Sequence

from harness.analysis import Finding, Summary
from harness.analysis.wording import digits
from harness.report.cells import MISSING, Table, table_by_pass

HEADERS = (
    "workload/pass",
    "arm",
    "p50 TTFT ms",
    "p99 TTFT ms",
    "p50 / recompute",
    "p99 / recompute",
    "mean TTFT ms",
    "failures",
    "prefix-cache hits, tokens",
    "external hits, tokens",
)
# Header, finding, and whether it is a share; a column of which no arm has anything is left out.
LATENCIES = (
    ("p50 TTFT from due, ms", "ttft_due_p50", False),
    ("p99 TTFT from due, ms", "ttft_due_p99", False),
    ("p50 TPOT, ms", "tpot_p50", False),
    ("p50 ITL, ms", "itl_p50", False),
    ("p99 ITL, ms", "itl_p99", False),
    ("p50 E2EL, ms", "e2el_p50", False),
    ("p99 E2EL, ms", "e2el_p99", False),
)
RATES = (
    ("requests/s", "requests_per_s", False),
    ("output tokens/s", "output_tokens_per_s", False),
    ("goodput, requests/s", "goodput_per_s", False),
    ("within the limits", "slo_share", True),
    ("prefix-cache hit rate", "prefix_cache_hit_rate", True),
    ("external hit rate", "external_prefix_cache_hit_rate", True),
    ("cached share of prompts", "cached_share", True),
    ("slope, ms/s", "ttft_due_slope", False),
    ("backlog at the last arrival", "backlog_at_last_arrival", False),
    ("drain, s", "drain_s", False),
)
PARTS = (
    ("queue, mean ms", "queue_mean", False),
    ("wait for other loads", "load_wait_mean", False),
    ("load", "load_mean", False),
    ("recompute", "recompute_mean", False),
    ("delivery", "delivery_mean", False),
    ("unexplained", "unexplained_mean", False),
)
SLICE_HEADERS = ("workload/pass", "arm", "of", "requests", "p50 TTFT ms", "p99 TTFT ms")
_OF_AN_ARM = {"arm", "workload", "pass"}
RISING = " (rising)"
Columns = Sequence[tuple[str, str, bool]]
"""Header, name of the finding, and whether it is a share."""
_RATIO_DIGITS = 2


def arms_table(summary: Summary, intervals: bool) -> Table:
    """The table of `summary`; with `intervals` each latency has its 95 % interval in brackets. Missing is a dash."""
    lines = ((where, arm, *_cells(own, intervals)) for (where, arm), own in _by_arm(summary).items())
    return table_by_pass(HEADERS, lines)


def further_table(summary: Summary, wanted: Columns) -> Table:
    """A table of `wanted` (LATENCIES, RATES or PARTS), an arm a line; none of arms of which nothing is known."""
    arms = _by_arm(summary)
    columns = [column for column in wanted if any(column[1] in own for own in arms.values())]
    lines = (
        (where, arm, *_rates(own, columns))
        for (where, arm), own in arms.items()
        if any(column[1] in own for column in columns)
    )
    return table_by_pass(("workload/pass", "arm", *(header for header, _, _ in columns)), lines)


def slice_table(summary: Summary, key: str) -> Table:
    """A line for each part of an arm's requests (`key`: lookup or prompt_tokens), in the order of SLICE_HEADERS."""
    parts: dict[tuple[str, str, str], dict[str, Finding]] = {}
    for finding in summary.findings:
        if finding.by.keys() == {*_OF_AN_ARM, key}:
            where = f"{finding.by['workload']}/{finding.by['pass']}"
            parts.setdefault((where, finding.by["arm"], finding.by[key]), {})[finding.name] = finding
    lines = (
        (
            *place,
            _count(own.get("requests")),
            _value(own.get("ttft_p50"), interval=True, mark=RISING if _rising(own) else ""),
            _value(own.get("ttft_p99"), interval=True),
        )
        for place, own in parts.items()
    )
    return table_by_pass(SLICE_HEADERS, lines, text_columns=3)


def machine_rows(summary: Summary) -> list[tuple[str, str, str, str]]:
    """What is known of the machine and of each arm's remote tier: of what, name, value with unit, where from."""
    return [
        (f.by.get("arm", "machine"), f.name, f"{_plain(f.estimate.value)} {f.unit}".strip(), f.estimate.method)
        for f in summary.findings
        if f.by.keys() <= {"arm"}
    ]


def _by_arm(summary: Summary) -> dict[tuple[str, str], dict[str, Finding]]:
    """The findings of whole passes, by workload/pass and arm, then by name."""
    found: dict[tuple[str, str], dict[str, Finding]] = {}
    for finding in summary.findings:
        if finding.by.keys() == _OF_AN_ARM:
            place = (f"{finding.by['workload']}/{finding.by['pass']}", finding.by["arm"])
            found.setdefault(place, {})[finding.name] = finding
    return found


def _rates(by_name: Mapping[str, Finding], columns: Columns) -> Iterator[str]:
    rising = _rising(by_name)
    for _, name, is_share in columns:
        finding = by_name.get(name)
        if is_share:
            yield MISSING if finding is None else f"{finding.estimate.value:.1%}"
        else:
            text = _value(finding, interval=False)
            yield text + RISING if rising and finding is not None and name.endswith("_p50") else text


def _rising(by_name: Mapping[str, Finding]) -> bool:
    return any(caveat.kind == "unstable" for finding in by_name.values() for caveat in finding.caveats)


def _cells(by_name: Mapping[str, Finding], intervals: bool) -> tuple[str, ...]:
    return (
        _value(by_name.get("ttft_p50"), intervals, mark=RISING if _rising(by_name) else ""),
        _value(by_name.get("ttft_p99"), intervals),
        _value(by_name.get("ttft_p50_ratio"), intervals, _RATIO_DIGITS),
        _value(by_name.get("ttft_p99_ratio"), intervals, _RATIO_DIGITS),
        _value(by_name.get("ttft_mean"), intervals),
        f"{_count(by_name.get('failures'))} of {_count(by_name.get('requests'))}",
        _count(by_name.get("prefix_cache_hits")),
        _count(by_name.get("external_prefix_cache_hits")),
    )


def _value(finding: Finding | None, interval: bool, significant: int = 3, mark: str = "") -> str:
    if finding is None or not math.isfinite(finding.estimate.value):
        return MISSING
    estimate = finding.estimate
    text = digits(estimate.value, significant) + mark
    if not interval or estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{digits(estimate.low, significant)}, {digits(estimate.high, significant)}]"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else digits(value)


def _count(finding: Finding | None) -> str:
    return MISSING if finding is None else f"{finding.estimate.value:,.0f}"
