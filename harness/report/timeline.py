"""A timeline as text: a table with a row for each window, and the TTFTs of the requests that were sent in it."""

import statistics
from collections import Counter

from harness.analysis.timeline import Series, Timeline

_SHORT = {
    "kv_cache_usage": "kv cache",
    "lookups_in_flight": "lookups",
    "loads_in_flight": "loads",
    "valkey_bytes_per_s": "",
    "engine_busy_share": "busy",
    "cpu_percent": "cpu",
    "gpu_utilization_percent": "",
}
_UNITS = {"bytes/s": (1e6, " MB/s"), "share": (0.01, " %"), "%": (1.0, " %")}


def render_timeline(timeline: Timeline) -> str:
    """The whole timeline; a dash where nothing is known."""
    columns = [("s", [f"{at * timeline.window_s:g}" for at in range(timeline.windows)]), *map(_column, timeline.series)]
    columns += _requests(timeline)
    lines = [f"arm {timeline.arm}: windows of {timeline.window_s:g} s from its first request"]
    lines += [
        f"  {span.start_s:8.1f} to {span.end_s:8.1f} s  {span.workload}/{span.pass_name} {span.repeat}"
        for span in timeline.passes
    ]
    lines += [f"  {at:8.1f} s  the counters of {of} began anew" for of, at in timeline.resets]
    widths = [max(len(head), *map(len, cells)) for head, cells in columns]
    lines += ["", "  ".join(head.rjust(width) for (head, _), width in zip(columns, widths, strict=True))]
    for at in range(timeline.windows):
        lines.append("  ".join(cells[at].rjust(width) for (_, cells), width in zip(columns, widths, strict=True)))
    return "\n".join(lines)


def _column(series: Series) -> tuple[str, list[str]]:
    scale, unit = _UNITS.get(series.unit, (1.0, ""))
    whose = series.instance if series.name in {"cpu_percent", "valkey_bytes_per_s", "gpu_utilization_percent"} else ""
    name = " ".join(part for part in (_SHORT.get(series.name, series.name), whose) if part)
    return f"{name}{unit}", ["-" if value is None else f"{value / scale:.3g}" for value in series.values]


def _requests(timeline: Timeline) -> list[tuple[str, list[str]]]:
    """Median TTFT, and how many requests came from where, of those sent in each window."""
    ttfts: list[list[float]] = [[] for _ in range(timeline.windows)]
    sources: list[Counter[str]] = [Counter() for _ in range(timeline.windows)]
    for point in timeline.points:
        at = min(int(point.t_s / timeline.window_s), timeline.windows - 1)
        ttfts[at].append(point.ttft_ms)
        sources[at][point.came_from] += 1
    told = [", ".join(f"{count} {source}" for source, count in sorted(one.items())) or "-" for one in sources]
    return [("ttft p50 ms", [f"{statistics.median(one):.1f}" if one else "-" for one in ttfts]), ("sent", told)]
