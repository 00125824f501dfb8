"""Any trace as native Mooncake JSONL with a sidecar, and what a peer must be told to read the same."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import TraceError
from harness.trace.options import ReadOptions, ReadReport
from harness.trace.peers import Peer, how_to_read
from harness.trace.read import TraceRows, read_trace
from harness.trace.request import TraceRequest
from harness.trace.sidecar import Sidecar
from harness.trace.turns import accumulate
from harness.trace.write import write_trace


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was read, what was written, and the lines that tell a peer how to read it (none without a peer)."""

    report: ReadReport
    sidecar: Sidecar
    how_to_read: tuple[str, ...]


def convert(
    source: Path,
    out: Path,
    format: str | None = None,  # noqa: A002
    options: ReadOptions | None = None,
    *,
    strict: bool = False,
    peer: Peer | None = None,
) -> Conversion:
    """Reads `source` whole, then writes it to `out` (NAME.jsonl, its sidecar beside it), rows in order of arrival.

    Native rows keep microseconds, sessions, delays and names. `strict`, which a `peer` implies, writes the four keys
    that every reader takes: times in whole ms, and ids for every token, since others know no tail without ids; what had
    none gets ids that occur once, so that hits stay as they are; turns that count only what is new become whole
    prompts. Memory holds no rows, unless they must be sorted or made whole.
    Nothing is written of a trace that cannot be read. Raises TraceError as `read_trace` does, and where `out` cannot be
    written.
    """
    if out.resolve() == source.resolve():
        raise TraceError("the trace would be written over itself", where=str(out), remedy="give another name")
    strict = strict or peer is not None
    first = TraceRows(source, format, options)
    deque(first, maxlen=0)
    report = first.report
    rows: Iterable[TraceRequest] = TraceRows(source, format, options)
    if report.moved:
        trace = read_trace(source, format, options)
        rows, report = trace.requests, trace.report or report
    meta = _sidecar(first.declared, report, source)
    if strict:
        free = report.ids
        if report.turn_lengths == "delta":
            rows = tuple(accumulate(rows, report.block_size))
            free = 1 + max((block for row in rows for block in row.blocks), default=-1)
        rows = with_ids_to_the_end(rows, report.block_size, free)
        meta = replace(meta, tail="ceil", turn_lengths="cumulative", notes=f"{meta.notes}{_strict_notes(report)}")
    written = write_trace(out, rows, meta, strict=strict)
    return Conversion(report, written, how_to_read(peer, out, written) if peer else ())


def with_ids_to_the_end(rows: Iterable[TraceRequest], block_size: int, free: int) -> Iterator[TraceRequest]:
    """Rows whose ids cover the whole prompt, the last one perhaps in part; new ids count from `free`, one use each."""
    for row in rows:
        missing = -(-row.input_tokens // block_size) - len(row.blocks)
        yield replace(row, blocks=(*row.blocks, *range(free, free + missing))) if missing else row
        free += missing


def _sidecar(declared: Sidecar, report: ReadReport, source: Path) -> Sidecar:
    """What is declared of the source, as it holds for the rows written: dense ids have no scopes."""
    notes = [declared.notes, *report.notes, f"converted from {source.name}, read as {report.format}"]
    if report.moved:
        notes.append(f"{report.moved} rows came after a row of a later time and were sorted")
    if report.unhashed:
        notes.append(f"{report.unhashed} rows say nothing of what they share")
    if report.raised_outputs:
        notes.append(f"{report.raised_outputs} outputs of no token were raised to one")
    return replace(
        declared,
        hash_scope="global",
        provenance="reconstructed" if declared.provenance == "reconstructed" else "converted",
        dropped=dict(Counter(declared.dropped) + Counter(report.dropped)),
        notes="; ".join(note for note in notes if note),
    )


def _strict_notes(report: ReadReport) -> str:
    ids = "" if report.tail == "ceil" and not report.unhashed else "; tokens without an id have ids that occur once"
    return f"; four keys only: times in whole ms, no sessions, delays or request ids{ids}"
