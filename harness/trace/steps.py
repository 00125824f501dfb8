"""Transforms in the order given, and what each of them did, in words that go into the plan."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.trace.request import Trace


@dataclass(frozen=True, slots=True)
class Step:
    """One transform with its arguments filled in. `name` is as the config writes it, such as `speedup 2`."""

    name: str
    act: Callable[[Trace], Trace]


def apply(trace: Trace, steps: Sequence[Step]) -> tuple[Trace, tuple[str, ...]]:
    """The trace after every step, and a line for each: its name and what it changed."""
    lines = []
    for step in steps:
        after = step.act(trace)
        lines.append(f"{step.name}: {_effect(trace, after)}")
        trace = after
    return trace, tuple(lines)


def _effect(before: Trace, after: Trace) -> str:
    changes = []
    rows = len(before.requests), len(after.requests)
    if rows[0] != rows[1]:
        changes.append(f"{rows[0]:,} -> {rows[1]:,} rows")
    else:
        changed = sum(one != other for one, other in zip(_gaps_us(before), _gaps_us(after), strict=True))
        if changed:
            changes.append(f"{changed:,} of {rows[0] - 1:,} gaps changed")
    for name, of in (("span", _span), ("input", _inputs), ("output", _outputs), ("blocks of", _block_size)):
        if of(before) != of(after):
            changes.append(f"{name} {of(before)} -> {of(after)}")
    return ", ".join(changes) or "no change"


def _gaps_us(trace: Trace) -> list[int]:
    return [later.arrival_us - earlier.arrival_us for earlier, later in pairwise(trace.requests)]


def _span(trace: Trace) -> str:
    return f"{(trace.requests[-1].arrival_us - trace.requests[0].arrival_us) / 1e6:,.3f} s"


def _inputs(trace: Trace) -> str:
    return f"{sum(one.input_tokens for one in trace.requests):,} tokens"


def _outputs(trace: Trace) -> str:
    return f"{sum(one.output_tokens for one in trace.requests):,} tokens"


def _block_size(trace: Trace) -> str:
    return f"{trace.block_size} tokens"
