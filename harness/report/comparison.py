"""What the terminal shows of a comparison: each pass with its intervals, and the rows that moved most."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.analysis import Change, Comparison, Estimate, PassComparison
from harness.analysis.wording import digits

_MISSING = "-"
_NAMES = (("p50", "p50"), ("p99", "p99"))
_SHOWN = {
    Change.LOWER: "lower: B takes less time",
    Change.HIGHER: "higher: B takes more time",
    Change.NOT_SHOWN: "not shown to differ",
}


def render_comparison(comparison: Comparison, console: Console) -> None:
    """Prints `comparison` on `console`."""
    console.print(
        Text(f"A = {comparison.a}\nB = {comparison.b}\n{comparison.metric}, paired by trace row", style="bold")
    )
    for one in comparison.allowed:
        console.print(Text(f"allowed to differ: {one}", style="yellow"))
    for part in comparison.passes:
        _print_pass(part, console)
    for label, caveat in comparison.caveats:
        console.print(Text(f"caveat of {label} ({caveat.kind}): {caveat.text}", style="yellow"))


def _print_pass(part: PassComparison, console: Console) -> None:
    console.print()
    left_out = f", {part.failed} left out because one failed" if part.failed else ""
    unpaired = f", {part.unpaired} rows only one of them planned" if part.unpaired else ""
    console.print(Text(f"{part.workload}/{part.pass_name}: {part.pairs} pairs{left_out}{unpaired}", style="bold"))
    if not part.findings:
        console.print(Text("  no pair in which both succeeded: nothing to compare"))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("", "A ms", "B ms", "B - A ms [95 %]", "B / A [95 %]"):
        table.add_column(header, justify="right" if header else "left", overflow="fold")
    for label, name in _NAMES:
        parts = ("a", "b", "difference", "ratio")
        table.add_row(label, *(_cell(part.estimate(f"{name}_{one}"), one) for one in parts))
    table.add_row("paired", "", "", _cell(part.estimate("paired_difference_p50"), "difference"), "")
    console.print(table)
    p99 = "not judged, fewer than 100 pairs" if part.p99 is None else f"{_SHOWN[part.p99]} (approximate)"
    console.print(Text(f"  p50: {_SHOWN[part.p50]}\n  p99: {p99}\n  {_shares(part)}"))
    for row in part.moved:
        told = ", ".join(f"{name} {_plain(a)} -> {_plain(b)}" for name, (a, b) in row.attribution.items() if a != b)
        where = f"repeat {row.repeat}, row {row.row}" if row.repeat else f"row {row.row}"
        console.print(Text(f"  {where}: {digits(row.a)} -> {digits(row.b)} ms{f' ({told})' if told else ''}"))


def _shares(part: PassComparison) -> str:
    lower, higher, p_value = (part.estimate(name) for name in ("lower_share", "higher_share", "wilcoxon_p"))
    test = "no pair differs" if p_value is None else f"Wilcoxon p {_p(p_value.value)}"
    return f"B lower in {_percent(lower)} of the pairs, higher in {_percent(higher)}; {test}; rows that moved most:"


def _percent(share: Estimate | None) -> str:
    return _MISSING if share is None else f"{share.value:.0%}"


def _cell(estimate: Estimate | None, kind: str) -> str:
    if estimate is None:
        return _MISSING
    text = digits(estimate.value)
    if kind in {"a", "b"} or estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{digits(estimate.low)}, {digits(estimate.high)}]"


def _plain(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}" if value.is_integer() else digits(value)


def _p(value: float) -> str:
    return "below 0.0001" if value < 0.0001 else digits(value, 2)
