"""What `kvreplay simulate` prints: tables as wide as what is in them, and words beside figures that need them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_CACHE_COLUMNS = ("requests", "prompt_tokens", "gpu_hit_tokens", "host_hit_tokens", "remote_hit_tokens")
_QUEUE_COLUMNS = (
    *("requests", "ttft_p50_ms", "ttft_p99_ms", "ttft_p50_third_1_ms", "ttft_p50_third_2_ms", "ttft_p50_third_3_ms"),
    *("ttft_growth", "most_in_flight", "mean_in_flight", "engine_busy_share", "link_busy_share"),
)
_WIDEST_HEADER = 10


def simulation_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The document of `simulate cache` or `queue`."""
    yield f"experiment {found['experiment']}, simulated ({found['kind']})"
    varied = list(found.get("varied", ()))
    columns = _QUEUE_COLUMNS if found["kind"] == "queue" else _CACHE_COLUMNS
    rows = [_with_settings(row) for row in found["rows"]]
    yield from _table([*varied, *_told(rows, ["arm", "workload", "pass"]), *_told(rows, columns)], rows)
    published = [_with_settings(row) for row in found["published"]]
    if published:
        yield ""
        yield "beside what was published"
        where = [*varied, *_told(published, ["arm", "workload", "pass"])]
        source = [] if varied else ["source"]
        yield from _table([*where, "figure", "simulated", "published", "ratio", *source], published)
    if not varied:  # notes are of the config as it stands
        yield from dict.fromkeys(_why(row) for row in published if row["note"])
    yield from (f"note: {note}" for note in found["notes"])


def curve_lines(found: Mapping[str, Any], block: int, chunk: int) -> Iterator[str]:
    """The document of `simulate curve`."""
    yield found["trace"]
    for one in found["curves"]:
        yield ""
        yield (
            f"{one['tiers']}: whole granules of {one['granule_tokens']} tokens; {one['prompt_tokens']:,} prompt tokens"
            f", {one['different_tokens']:,} different; at most {one['best_hit_rate']:.2%} hit"
        )
        shares = one["capacity_tokens_for_share"].items()
        known = [f"{float(share):.0%} {tokens:,}" for share, tokens in shares if tokens is not None]
        if known:
            yield f"  capacity in tokens for so much of all hits: {', '.join(known)}"
        if one["cliff_tokens"] is not None:
            low, high = one["cliff_tokens"]
            yield f"  a cliff: next to nothing hits below {low:,} tokens, nearly all from {high:,} on"
        spans = ", ".join(f"{tokens:,}" for tokens in one["working_set_tokens"])
        yield f"  working set in tokens, by tenth of the time: {spans}"
        for point in one["points"]:
            size = "" if point["capacity_bytes"] is None else f"  {point['capacity_bytes'] / 1e9:12,.2f} GB"
            yield f"  {point['capacity_tokens']:14,} tokens{size}  {point['hit_rate']:8.2%}"
    if chunk % block:
        yield f"note: chunks of {chunk} are not whole blocks of {block}: what both tiers hit ends at different tokens"


def _with_settings(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row.get("set", {}), **row}


def _told(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """The columns that tell something: arms always, others where there is a value, and not the same word everywhere."""
    kept = []
    for column in columns:
        values = [row.get(column) for row in rows]
        same_word = len(set(map(str, values))) == 1 and isinstance(values[0], str)
        if column == "arm" or not (same_word or all(value is None for value in values)):
            kept.append(column)
    return kept


def _why(row: Mapping[str, Any]) -> str:
    return f"  {row['arm']}, {row['figure']}: {row['note']}"


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines; a header that is wider than its column goes over several, cut at its underscores."""
    headers = [_wrapped(column) for column in columns]
    height = max(map(len, headers))
    lines = list(zip(*([""] * (height - len(one)) + one for one in headers), strict=True))
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, *cells, strict=True)]
    right = [all(isinstance(row.get(column), (int, float, type(None))) for row in rows) for column in columns]
    for line in (*lines, *cells):
        parts = zip(line, widths, right, strict=True)
        yield (
            "  "
            + "  ".join(text.rjust(width) if number else text.ljust(width) for text, width, number in parts).rstrip()
        )


def _wrapped(name: str) -> list[str]:
    lines = [""]
    for number, word in enumerate(name.split("_")):
        piece = word if number == 0 else f"_{word}"
        if lines[-1] and len(lines[-1]) + len(piece) > _WIDEST_HEADER:
            lines.append("")
        lines[-1] += piece
    return lines


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{round(value, 3) + 0.0:,.3f}" if abs(value) < 10 else f"{value:,.1f}"  # no -0.000
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
