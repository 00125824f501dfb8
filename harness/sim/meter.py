"""Series of a simulation, sampled at even times: how many ran and waited, how busy engine and instances were."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.records import Cell, ServerSample

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Meter:
    """What happened when: (time, running, waiting) at each change, and the spans (begin, end) in which work was done.

    Times are seconds of one clock and only go on.
    """

    counts: list[tuple[float, int, int]] = field(default_factory=list)
    computing: list[tuple[float, float]] = field(default_factory=list)

    def samples(
        self, cell: Cell, links: Sequence[tuple[int, float, float]], end_s: float, every_s: float
    ) -> list[ServerSample]:
        """Samples at 0, `every_s`, 2 `every_s`, ... up to `end_s`; a busy share is that of the interval before."""
        times = np.arange(0, int(end_s / every_s) + 1, dtype=np.float64) * np.float64(every_s)
        series = [("vllm", "engine", name, values) for name, values in self._counts(times)]
        series.append(("vllm", "engine", "engine_busy_share", _shares(self.computing, times)))
        for instance in sorted({one for one, _, _ in links}):
            spans = [(begin, end) for one, begin, end in links if one == instance]
            series.append(("valkey", f"valkey-{instance}", "link_busy_share", _shares(spans, times)))
        return [
            ServerSample(cell.arm, cell.repeat, round(time * 1e9), source, instance, name, float(value))
            for source, instance, name, values in series
            for time, value in zip(times, values, strict=True)
        ]

    def _counts(self, times: Floats) -> list[tuple[str, Floats]]:
        moments = np.array([when for when, _, _ in self.counts])
        place = np.searchsorted(moments, times, side="right")
        running = np.array([0, *(count for _, count, _ in self.counts)])
        waiting = np.array([0, *(count for _, _, count in self.counts)])
        return [
            ("vllm:num_requests_running", running[place].astype(float)),
            ("vllm:num_requests_waiting", waiting[place].astype(float)),
        ]


def busy_s(spans: Sequence[tuple[float, float]]) -> float:
    """The time that spans cover, which do not overlap."""
    return sum(end - begin for begin, end in spans)


def _shares(spans: Sequence[tuple[float, float]], times: Floats) -> Floats:
    """By time: which share of the interval before it the spans (in order, not overlapping) cover; 0 at the first."""
    edges = np.array([edge for span in spans for edge in span] or [0.0])
    lengths = np.array([end - begin for begin, end in spans])
    done = np.repeat(np.concatenate([[0.0], np.cumsum(lengths)]), 2)[1:-1] if len(spans) else np.zeros(1)
    covered = np.interp(times, edges, done)
    return np.concatenate([[0.0], np.diff(covered) / np.diff(times)])
