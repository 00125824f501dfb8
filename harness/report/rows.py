"""The result table as text: one row an arm, workload and pass, the arms of one pass beside each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.analysis import Finding, Summary
from harness.analysis.measured import OPEN_LOOP_PASS
from harness.analysis.wording import digits

HEADERS = (
    "workload/pass",
    "arm",
    "p50 TTFT ms",
    "p99 TTFT ms",
    "mean TTFT ms",
    "prefix-cache hits, tokens",
    "external hits, tokens",
    "failures",
    "p50 / recompute",
    "p99 / recompute",
)
TEXT_COLUMNS = 2
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
SLICE_HEADERS = ("workload/pass", "arm", "of", "requests", "p50 TTFT ms", "p99 TTFT ms")
_OF_AN_ARM = {"arm", "workload", "pass"}
RISING = " (rising)"
Columns = Sequence[tuple[str, str, bool]]
"""Header, name of the finding, and whether it is a share."""
_MISSING = "-"
_RATIO_DIGITS = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: `cells` in the order of HEADERS; `opens` where another workload or pass begins."""

    cells: tuple[str, ...]
    opens: bool


def table_rows(summary: Summary, intervals: bool) -> list[Row]:
    """The table of `summary`; with `intervals` each latency has its 95 % interval in brackets. Missing is a dash."""
    return [
        Row((f"{workload}/{name}", arm, *_cells(by_name, intervals)), opens=position == 0)
        for (workload, name), arms in _by_pass(summary).items()
        for position, (arm, by_name) in enumerate(arms.items())
    ]


def further_rows(summary: Summary, wanted: Columns) -> tuple[tuple[str, ...], list[Row]]:
    """Headers and lines of a table of `wanted` (LATENCIES or RATES), an arm a line."""
    by_pass = _by_pass(summary)
    there = {finding.name for finding in summary.findings if finding.by.keys() == _OF_AN_ARM}
    columns = [column for column in wanted if column[1] in there]
    rows = [
        Row((f"{workload}/{name}", arm, *_rates(by_name, columns)), opens=position == 0)
        for (workload, name), arms in by_pass.items()
        for position, (arm, by_name) in enumerate(arms.items())
    ]
    return ("workload/pass", "arm", *(header for header, _, _ in columns)), rows


def slice_rows(summary: Summary, key: str) -> list[Row]:
    """A line for each part of an arm's requests (`key`: lookup or prompt_tokens), in the order of SLICE_HEADERS."""
    parts: dict[tuple[str, str, str], dict[str, Finding]] = {}
    for finding in summary.findings:
        if finding.by.keys() == {*_OF_AN_ARM, key}:
            where = f"{finding.by['workload']}/{finding.by['pass']}"
            parts.setdefault((where, finding.by["arm"], finding.by[key]), {})[finding.name] = finding
    rows, before = [], ("", "")
    for (where, arm, label), by_name in parts.items():
        p50, p99 = (_value(by_name.get(name), interval=True) for name in ("ttft_p50", "ttft_p99"))
        rising = RISING if _rising(by_name) else ""
        cells = (where, arm, label, _count(by_name.get("requests")), p50 + rising, p99)
        rows.append(Row(cells, opens=(where, arm) != before))
        before = (where, arm)
    return rows


def machine_rows(summary: Summary) -> list[tuple[str, str, str, str]]:
    """What is known of the machine and of each arm's remote tier: of what, name, value with unit, where from."""
    return [
        (f.by.get("arm", "machine"), f.name, f"{_plain(f.estimate.value)} {f.unit}".strip(), f.estimate.method)
        for f in summary.findings
        if f.by.keys() <= {"arm"}
    ]


def _by_pass(summary: Summary) -> dict[tuple[str, str], dict[str, dict[str, Finding]]]:
    """The findings of whole passes, by workload and pass (replays first, as in pictures), then by arm, then by name."""
    found: dict[tuple[str, str], dict[str, dict[str, Finding]]] = {}
    for finding in summary.findings:
        if finding.by.keys() == _OF_AN_ARM:
            arms = found.setdefault((finding.by["workload"], finding.by["pass"]), {})
            arms.setdefault(finding.by["arm"], {})[finding.name] = finding
    return dict(sorted(found.items(), key=lambda item: item[0][1] != OPEN_LOOP_PASS))


def _rates(by_name: Mapping[str, Finding], columns: Columns) -> Iterator[str]:
    rising = _rising(by_name)
    for _, name, is_share in columns:
        finding = by_name.get(name)
        if is_share:
            yield _MISSING if finding is None else f"{finding.estimate.value:.1%}"
        else:
            text = _value(finding, interval=False)
            yield text + RISING if rising and finding is not None and name.endswith("_p50") else text


def _rising(by_name: Mapping[str, Finding]) -> bool:
    return any(caveat.kind == "unstable" for finding in by_name.values() for caveat in finding.caveats)


def _cells(by_name: Mapping[str, Finding], intervals: bool) -> tuple[str, ...]:
    p50 = _value(by_name.get("ttft_p50"), intervals)
    return (
        p50 + RISING if _rising(by_name) else p50,
        _value(by_name.get("ttft_p99"), intervals),
        _value(by_name.get("ttft_mean"), intervals),
        _count(by_name.get("prefix_cache_hits")),
        _count(by_name.get("external_prefix_cache_hits")),
        f"{_count(by_name.get('failures'))} of {_count(by_name.get('requests'))}",
        _value(by_name.get("ttft_p50_ratio"), intervals, _RATIO_DIGITS),
        _value(by_name.get("ttft_p99_ratio"), intervals, _RATIO_DIGITS),
    )


def _value(finding: Finding | None, interval: bool, significant: int = 3) -> str:
    if finding is None:
        return _MISSING
    estimate = finding.estimate
    text = digits(estimate.value, significant)
    if not interval or estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{digits(estimate.low, significant)}, {digits(estimate.high, significant)}]"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else digits(value)


def _count(finding: Finding | None) -> str:
    return _MISSING if finding is None else f"{finding.estimate.value:,.0f}"
