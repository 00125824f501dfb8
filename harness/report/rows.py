"""The result table as text: one row an arm, workload and pass, the arms of one pass beside each other."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.analysis import Finding, Summary
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
RISING = " (rising)"
_MISSING = "-"
_RATIO_DIGITS = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: `cells` in the order of HEADERS; `opens` where another workload or pass begins."""

    cells: tuple[str, ...]
    opens: bool


def table_rows(summary: Summary, intervals: bool) -> list[Row]:
    """The table of `summary`; with `intervals` each latency has its 95 % interval in brackets. Missing is a dash."""
    found: dict[tuple[str, str], dict[str, dict[str, Finding]]] = {}
    for finding in summary.findings:
        if "pass" in finding.by:
            arms = found.setdefault((finding.by["workload"], finding.by["pass"]), {})
            arms.setdefault(finding.by["arm"], {})[finding.name] = finding
    return [
        Row((f"{workload}/{name}", arm, *_cells(by_name, intervals)), opens=position == 0)
        for (workload, name), arms in found.items()
        for position, (arm, by_name) in enumerate(arms.items())
    ]


def machine_rows(summary: Summary) -> list[tuple[str, str, str, str]]:
    """What is known of the machine and of each arm's remote tier: of what, name, value with unit, where from."""
    return [
        (f.by.get("arm", "machine"), f.name, f"{_plain(f.estimate.value)} {f.unit}".strip(), f.estimate.method)
        for f in summary.findings
        if "pass" not in f.by
    ]


def _cells(by_name: Mapping[str, Finding], intervals: bool) -> tuple[str, ...]:
    rising = any(caveat.kind == "unstable" for finding in by_name.values() for caveat in finding.caveats)
    p50 = _value(by_name.get("ttft_p50"), intervals)
    return (
        p50 + RISING if rising else p50,
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
