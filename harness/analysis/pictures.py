"""The points of a run's pictures of requests: TTFT over due time, and its distribution. The report only draws them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.analysis.explained import PARTS
from harness.analysis.measured import OPEN_LOOP_PASS, Group, measured_groups
from harness.analysis.roles import recompute_arm
from harness.analysis.slices import lookup_outcomes
from harness.records import Run

MOST_POINTS = 20_000
"""Points of one picture, all arms together: more would not be told apart, and slow the page down."""
_MOST_STEPS = 1_000
_KEPT_WHOLE = 0.99


@dataclass(frozen=True, slots=True)
class Trail:
    """One arm's requests with a TTFT, in order of due time: when due (s from the pass's first), TTFT (ms), and who.

    `lookup` is one of slices.LOOKUPS; `cached_tokens` is None where not known, and `parts_ms` has what is known.
    `total` says how many requests had a TTFT: where the trail has fewer points, it has every one above the 99th
    percentile, and of the others every k-th. `sorted_ttft_ms` with `share` is the distribution of all of them: share[i]
    of the requests took at most sorted_ttft_ms[i]; of more than 1,000 steps, every k-th is there.
    """

    arm: str
    due_s: tuple[float, ...]
    ttft_ms: tuple[float, ...]
    seq: tuple[int, ...]
    row: tuple[int, ...]
    prompt_tokens: tuple[int, ...]
    cached_tokens: tuple[int | None, ...]
    lookup: tuple[str, ...]
    parts_ms: tuple[dict[str, float], ...]
    total: int
    sorted_ttft_ms: tuple[float, ...]
    share: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """One workload and pass, with a trail for each arm. `open_loop` tells whether due times come from a trace.

    `recompute_p50_ms` is the median TTFT of the arm that the others are held against; None without one.
    """

    workload: str
    pass_name: str
    open_loop: bool
    trails: tuple[Trail, ...]
    recompute_p50_ms: float | None


def pictures(run: Run, most_points: int = MOST_POINTS) -> tuple[Picture, ...]:
    """A picture for each measured workload and pass with a TTFT in it, replays of traces first."""
    found: dict[tuple[str, str], list[Group]] = {}
    base = recompute_arm(run.meta)
    for group in measured_groups(run):
        found.setdefault((group.workload, group.pass_name), []).append(group)
    drawn = []
    for (workload, name), groups in found.items():
        rows = {group.arm: _rows(group) for group in groups}
        share = min(1.0, most_points / max(1, sum(len(one) for one in rows.values())))
        trails = tuple(_trail(arm, one, int(share * len(one))) for arm, one in rows.items() if len(one))
        if trails:
            median = rows[base]["ttft_ms"].median() if base in rows and len(rows[base]) else None
            drawn.append(Picture(workload, name, name == OPEN_LOOP_PASS, trails, median))
    return tuple(sorted(drawn, key=lambda picture: not picture.open_loop))


def _rows(group: Group) -> pd.DataFrame:
    start_ns = group.requests.groupby("repeat")["due_ns"].transform("min")
    rows = group.ok.assign(due_s=(group.requests["due_ns"] - start_ns) / 1e9)
    rows = rows[np.isfinite(rows["ttft_ms"].astype(float)) & np.isfinite(rows["due_s"].astype(float))]
    ordered: pd.DataFrame = rows.assign(lookup=lookup_outcomes(rows)).sort_values(["due_s", "seq"])
    return ordered


def _trail(arm: str, rows: pd.DataFrame, most: int) -> Trail:
    ordered = np.sort(rows["ttft_ms"].to_numpy(dtype=np.float64))
    steps = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), _MOST_STEPS)).astype(int))
    shown = _thinned(rows, most)
    return Trail(
        arm=arm,
        due_s=tuple(shown["due_s"].astype(float)),
        ttft_ms=tuple(shown["ttft_ms"].astype(float)),
        seq=tuple(int(seq) for seq in shown["seq"]),
        row=tuple(int(row) for row in shown["row"]),
        prompt_tokens=tuple(int(tokens) for tokens in shown["prompt_tokens_planned"]),
        cached_tokens=tuple(None if tokens is None else int(tokens) for tokens in _known(shown["cached_tokens"])),
        lookup=tuple(shown["lookup"]),
        parts_ms=_parts(shown),
        total=len(rows),
        sorted_ttft_ms=tuple(float(ordered[step]) for step in steps),
        share=tuple(float(step + 1) / len(ordered) for step in steps),
    )


def _thinned(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """At most about `most` rows: the slowest hundredth whole, and every k-th of the others."""
    if len(rows) <= max(most, 1):
        return rows
    slow = rows["ttft_ms"] > rows["ttft_ms"].quantile(_KEPT_WHOLE)
    left = max(1, most - int(slow.sum()))
    every = -(-int((~slow).sum()) // left)
    kept: pd.DataFrame = rows[slow | (np.cumsum(~slow) % every == 0)]
    return kept


def _parts(rows: pd.DataFrame) -> tuple[dict[str, float], ...]:
    columns = {part.removesuffix("_ms"): _known(rows[part]) for part in PARTS}
    lines = ({part: values[at] for part, values in columns.items()} for at in range(len(rows)))
    return tuple({part: value for part, value in line.items() if value is not None} for line in lines)


def _known(values: "pd.Series[float]") -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values.astype(float)]
