"""The trace that a workload replays: read, made to fit the engine, taken through its transforms in their order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config import TraceReplay, Transform
from harness.errors import ConfigError
from harness.trace import ReadOptions, Trace, read_trace
from harness.trace.lengths import fit_lengths, scale_lengths, scale_to_chunks
from harness.trace.steps import Step, apply
from harness.trace.transform import (
    cap_gaps,
    jitter,
    keep_sessions,
    limit,
    sample_sessions,
    speedup,
    window,
    with_rate,
)
from harness.trace.turns import accumulate


@dataclass(frozen=True, slots=True)
class ReplayedTrace:
    """A trace as a workload wants it, as far as no machine is needed to know.

    `whole` has the lengths and blocks of `kept`, and every row that the engine takes: what is shared there is shared.
    `log` says what each step did. `open_steps` wait for a rate: `rate: match-rho`, and what follows it.
    """

    kept: Trace
    whole: Trace
    log: tuple[str, ...]
    open_steps: tuple[Transform, ...]

    def timed(self, rate_per_s: float | None) -> tuple[Trace, tuple[str, ...]]:
        """The trace with its steps all done, and the whole log; without a rate, the open steps are left out."""
        if rate_per_s is None:
            return self.kept, self.log
        steps = [step if step.rate is None else Transform(rate=rate_per_s) for step in self.open_steps]
        trace, log = apply(self.kept, [_step(step, seed=0) for step in steps])
        return trace, (*self.log, *log)


def read_replayed(
    replay: TraceReplay, base: Path, workload: str, limits: Mapping[str, int], seed: int
) -> ReplayedTrace:
    """Read the trace of a workload and transform it.

    `limits` are the token counts, by name, that no request may exceed. Lengths are changed first: no other step looks
    at them, and blocks keep their ids so. Raises TraceError and ConfigError.
    """
    steps = replay.steps
    open_from = next((place for place, step in enumerate(steps) if step.rate == "match-rho"), len(steps))
    now = steps[:open_from]
    read, said = _read(replay, _find(replay.file, base, workload))
    whole, log = apply(
        read,
        [_step(step, seed) for step in now if step.length_scale is not None] + _fitting(replay, limits),
    )
    kept, more = apply(whole, [_step(step, seed) for step in now if step.length_scale is None])
    return ReplayedTrace(kept, whole, (said, *log, *more), steps[open_from:])


def _read(replay: TraceReplay, path: Path) -> tuple[Trace, str]:
    """The trace, its turns being prompts that hold those before, and how it was read."""
    options = ReadOptions(replay.on_bad_row, replay.zero_output, allow_unhashed=replay.allow_unhashed)
    trace = read_trace(path, replay.format, options)
    report = trace.report
    assert report is not None  # noqa: S101 - it was read
    if report.turn_lengths == "delta":
        trace = replace(trace, requests=tuple(accumulate(trace.requests, trace.block_size)))
    dropped = "".join(f", {count:,} dropped ({reason})" for reason, count in sorted(report.dropped.items()))
    unhashed = f", {report.unhashed:,} of them say nothing of what they share" if report.unhashed else ""
    return trace, f"read as {report.format}: {report.read:,} rows, {report.kept:,} kept{unhashed}{dropped}"


def _fitting(replay: TraceReplay, limits: Mapping[str, int]) -> list[Step]:
    if not limits:
        return []
    name = min(limits, key=lambda name: limits[name])
    fits = f"over_length {replay.over_length}, {name} {limits[name]}"
    return [Step(fits, lambda trace: fit_lengths(trace, limits[name], replay.over_length, name))]


def _step(step: Transform, seed: int) -> Step:
    """A step of the config as one of the trace room."""
    act: Callable[[Trace], Trace]
    match step.key, step.value:
        case "limit", n:
            name, act = f"limit {n}", lambda trace: limit(trace, n)
        case "window", span:
            since = f" from {span.start:g} s" if span.start else ""
            name, act = f"window {span.length:g} s{since}", lambda t: window(t, _us(span.length), _us(span.start))
        case "keep_sessions", wanted:
            named = wanted if isinstance(wanted, int) else ", ".join(wanted)
            name, act = f"keep_sessions {named}", lambda trace: keep_sessions(trace, wanted)
        case "sample_sessions", share:
            name, act = f"sample_sessions {share:g}, seed {seed}", lambda trace: sample_sessions(trace, share, seed)
        case "speedup", factor:
            name, act = f"speedup {factor:g}", lambda trace: speedup(trace, factor)
        case "gap_cap", seconds:
            name, act = f"gap_cap {seconds:g} s", lambda trace: cap_gaps(trace, _us(seconds))
        case "jitter", seconds:
            name, act = f"jitter {seconds:g} s, seed {seed}", lambda trace: jitter(trace, _us(seconds), seed)
        case "length_scale", scale if scale.chunk is None:
            name, act = f"length_scale {scale.ratio}", lambda trace: scale_lengths(trace, scale.ratio)
        case "length_scale", scale:
            name = f"length_scale {scale.ratio} to chunks of {scale.chunk}"
            act = lambda trace: scale_to_chunks(trace, scale.ratio, scale.chunk)  # noqa: E731 - one of ten such
        case _, per_s:
            name, act = f"rate {per_s:g} a second", lambda trace: with_rate(trace, per_s)
    return Step(name, act)


def open_names(steps: Sequence[Transform]) -> tuple[str, ...]:
    """The steps that wait for a rate, as `kvreplay plan` lists them."""
    return tuple(
        "rate match-rho: set by the probe" if step.rate is not None else f"{_step(step, 0).name}: after the rate is set"
        for step in steps
    )


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _find(file: str, base: Path, workload: str) -> Path:
    """A trace's path counts from the working directory, else from the config's folder or the one above it."""
    for folder in (Path(), base, base.parent):
        if (folder / file).is_file():
            return folder / file
    raise ConfigError(
        f"workload {workload}: no such trace: {file}",
        where="trace.file",
        remedy="give a path from here or from the config's folder",
    )
