"""The points of a run's pictures: TTFT over due time, and its distribution. The report only draws them."""

from dataclasses import dataclass

import numpy as np

from harness.analysis.measured import OPEN_LOOP_PASS, Group, measured_groups
from harness.records import Run


@dataclass(frozen=True, slots=True)
class Trail:
    """One arm's requests with a TTFT, in order of due time: when due (s from the pass's first), TTFT (ms), seq, cached.

    `cached_tokens` is None for a request whose server did not say. `sorted_ttft_ms` with `share` is the distribution:
    share[i] of the requests took at most sorted_ttft_ms[i].
    """

    arm: str
    due_s: tuple[float, ...]
    ttft_ms: tuple[float, ...]
    seq: tuple[int, ...]
    cached_tokens: tuple[int | None, ...]
    sorted_ttft_ms: tuple[float, ...]
    share: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """One workload and pass, with a trail for each arm. `open_loop` tells whether due times come from a trace."""

    workload: str
    pass_name: str
    open_loop: bool
    trails: tuple[Trail, ...]


def pictures(run: Run) -> tuple[Picture, ...]:
    """A picture for each measured workload and pass with a TTFT in it, replays of traces first."""
    found: dict[tuple[str, str], list[Trail]] = {}
    for group in measured_groups(run):
        trail = _trail(group)
        if trail is not None:
            found.setdefault((group.workload, group.pass_name), []).append(trail)
    drawn = [Picture(work, name, name == OPEN_LOOP_PASS, tuple(trails)) for (work, name), trails in found.items()]
    return tuple(sorted(drawn, key=lambda picture: not picture.open_loop))


def _trail(group: Group) -> Trail | None:
    start_ns = group.requests.groupby("repeat")["due_ns"].transform("min")
    rows = group.ok.assign(due_s=(group.requests["due_ns"] - start_ns) / 1e9).dropna(subset=["ttft_ms"])
    if rows.empty:
        return None
    rows = rows.sort_values(["due_s", "seq"])
    ordered = np.sort(rows["ttft_ms"].to_numpy(dtype=np.float64))
    return Trail(
        arm=group.arm,
        due_s=tuple(rows["due_s"].astype(float)),
        ttft_ms=tuple(rows["ttft_ms"].astype(float)),
        seq=tuple(int(seq) for seq in rows["seq"]),
        cached_tokens=tuple(
            None if np.isnan(cached) else int(cached) for cached in rows["cached_tokens"].astype(float)
        ),
        sorted_ttft_ms=tuple(float(value) for value in ordered),
        share=tuple((rank + 1) / len(ordered) for rank in range(len(ordered))),
    )
