"""A trace's description as text."""

from collections.abc import Iterator
from pathlib import Path

from harness.trace.check import Check
from harness.trace.describe import CHUNK_TOKENS, ENGINE_BLOCK_TOKENS, Quantiles


def described(file: Path, found: Check) -> str:
    """All that is known of a trace: how it was read, its rows, times, lengths, and what its prompts share."""
    return "\n".join((str(file), *_reading(found), *_times(found), *_lengths(found), *_sharing(found), ""))


def _reading(found: Check) -> Iterator[str]:
    report = found.report
    said = "as its sidecar says" if report.sidecar else "no sidecar: the format's own rules"
    yield f"  read as {report.format} ({report.format_by}), {said}"
    yield (
        f"  time in {report.time_unit}, blocks of {report.block_size} tokens, tail {report.tail}, "
        f"ids by {report.hash_kind}, {report.hash_scope}, turns {report.turn_lengths}"
    )
    dropped = sum(report.dropped.values())
    yield f"  rows     {report.read:,} read = {report.kept:,} kept + {dropped:,} dropped"
    for reason, count in sorted(report.dropped.items()):
        yield f"           {count:,} dropped: {reason}"
    for note in report.notes:
        yield f"  note     {note}"


def _times(found: Check) -> Iterator[str]:
    times = found.description.times
    yield f"  span     {times.span_s:,.3f} s, rate {_number(times.rate_per_s)} a second"
    yield (
        f"  gaps     CV {_number(times.gap_cv)}, longest {_number(times.longest_gap_s)} s; index of dispersion "
        f"{_number(times.dispersion)} in windows of {_number(times.dispersion_window_s)} s, "
        f"{_number(times.dispersion_per_minute)} in minutes"
    )
    yield (
        f"  times    in steps of about {_number(times.step_s)} s; {times.rows_sharing_a_time:,} rows share their time "
        f"with others, at most {times.most_at_one_time:,} at one"
    )


def _lengths(found: Check) -> Iterator[str]:
    description = found.description
    for name, one in (("input", description.input_tokens), ("output", description.output_tokens)):
        yield f"  {name:8} {_quantiles(one)}"
    yield f"  longest  {description.longest_request_tokens:,} tokens, input + output"
    if description.sessions:
        yield (
            f"  sessions {description.sessions:,} with {description.rows_in_sessions:,} rows; "
            f"{description.turns_that_wait:,} turns say how long after the one before they came"
        )


def _sharing(found: Check) -> Iterator[str]:
    description, sharing = found.description, found.description.sharing
    yield (
        f"  blocks   {description.blocks:,}, {description.different_blocks:,} different; "
        f"{description.rows_without_ids:,} rows without ids"
    )
    if sharing.by_tokens is None or sharing.by_blocks is None:
        return
    yield (
        f"  hits     {sharing.by_tokens:.1%} of the tokens, {sharing.by_blocks:.1%} of the blocks: an infinite cache, "
        "the last block in part included"
    )
    yield (
        f"           {sharing.in_engine_blocks:.1%} in whole blocks of {ENGINE_BLOCK_TOKENS} (vLLM), "
        f"{sharing.in_chunks:.1%} in whole chunks of {CHUNK_TOKENS} (LMCache), the last token computed"
    )
    if sharing.reuse_distance_tokens is not None:
        parts = ", ".join(f"{name} {tokens:,}" for name, tokens in sharing.reuse_distance_tokens.items())
        yield f"  reuse    {parts}: tokens that a least-recently-used cache must hold to hit that share of them"


def _quantiles(one: Quantiles) -> str:
    shown = " ".join(f"{name} {getattr(one, name):,.0f}" for name in ("p10", "p50", "p90", "p99", "max", "mean"))
    return f"{shown}; {one.total:,} tokens in all"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}"
