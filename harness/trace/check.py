"""A trace file read, described and judged: what `kvreplay trace check` says."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.trace.describe import CHUNK_TOKENS, ENGINE_BLOCK_TOKENS, Description, describe
from harness.trace.options import ReadOptions, ReadReport
from harness.trace.read import TraceRows, read_trace
from harness.trace.request import TraceRequest
from harness.trace.turns import accumulate

_MANY = 0.05  # of the rows share their time
_COARSE = 0.1  # of the mean gap is one step: bursts share a time too, but recorded in fine steps


@dataclass(frozen=True, slots=True)
class Warning:  # noqa: A001 - ours, not Python's
    """Something to know before a result on this trace is believed; `kind` is for scripts, the rest for people."""

    kind: str
    text: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Check:
    """What reading found, what is in the rows, and what to beware of."""

    report: ReadReport
    description: Description
    warnings: tuple[Warning, ...]


def check(path: Path, format: str | None = None, options: ReadOptions | None = None) -> Check:  # noqa: A002
    """Reads every row of `path` and describes them.

    Memory holds three numbers a row and what is known of each different block; a file whose rows are out of order is
    held whole. Turns that count only what is new are described as the prompts they make. Raises TraceError as
    TraceRows does.
    """
    rows = TraceRows(path, format, options)
    try:
        description = describe(_prompts(_in_order(rows), rows.report), rows.report.block_size)
        report = rows.report
    except _OutOfOrderError:
        trace = read_trace(path, format, options)
        assert trace.report is not None  # noqa: S101 - it was read
        report = trace.report
        description = describe(_prompts(trace.requests, report), trace.block_size)
    return Check(report, description, tuple(_warnings(report, description)))


class _OutOfOrderError(Exception):
    """A row came after one of a later time."""


def _in_order(rows: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
    latest_us = None
    for row in rows:
        if latest_us is not None and row.arrival_us < latest_us:
            raise _OutOfOrderError
        latest_us = row.arrival_us
        yield row


def _prompts(rows: Iterable[TraceRequest], report: ReadReport) -> Iterable[TraceRequest]:
    return accumulate(rows, report.block_size) if report.turn_lengths == "delta" else rows


def _warnings(report: ReadReport, found: Description) -> Iterator[Warning]:
    yield from _of_reading(report)
    yield from _of_times(found)
    yield from _of_sharing(found)


def _of_reading(report: ReadReport) -> Iterator[Warning]:
    dropped = sum(report.dropped.values())
    if dropped:
        yield Warning(
            "rows_dropped", f"{dropped:,} of {report.read:,} rows are left out", "see the reasons; mend the source"
        )
    if report.moved:
        yield Warning(
            "unsorted",
            f"{report.moved:,} rows come after a row of a later time; they are sorted, others stay as they are",
            "readers that do not sort replay another trace: convert it",
        )
    if report.raised_outputs:
        yield Warning(
            "outputs_raised",
            f"{report.raised_outputs:,} outputs of no token count as one",
            "a server decodes what the source did not",
        )


def _of_times(found: Description) -> Iterator[Warning]:
    times, step_s = found.times, found.times.step_s or 0.0
    if found.rows > 1 and times.span_s == 0:
        yield Warning("one_time", "all rows arrive at once", "set a rate: from other rows, or made arrivals")
    elif times.rows_sharing_a_time > _MANY * found.rows and step_s * (times.rate_per_s or 0.0) >= _COARSE:
        yield Warning(
            "coarse_times",
            f"{times.rows_sharing_a_time:,} of {found.rows:,} rows share their time with others, up to "
            f"{times.most_at_one_time:,} of them; times come in steps of about {step_s:g} s",
            f"they are sent at once, in the file's order; the transform `jitter: {step_s:g}s` spreads them",
        )


def _of_sharing(found: Description) -> Iterator[Warning]:
    if found.rows_without_ids:
        yield Warning(
            "no_ids",
            f"{found.rows_without_ids:,} of {found.rows:,} rows say nothing of what they share",
            "each gets a prompt of its own: no cache experiment can rest on them",
        )
    if found.blocks and not found.sharing.by_tokens:
        yield Warning("nothing_shared", "no prompt begins as another does", "no cache can help: take another trace")
    for name, granule in (("vLLM's block", ENGINE_BLOCK_TOKENS), ("LMCache's chunk", CHUNK_TOKENS)):
        if found.blocks and found.block_size % granule:
            yield Warning(
                "blocks_do_not_fit",
                f"blocks of {found.block_size} tokens are not whole multiples of {name} of {granule}",
                "hits are cut to whole ones: see what is left of them",
            )
