"""What happened: one typed row per request, whatever format it was read from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace.

    `row` is its position in the source, from 0. `arrival_us` counts from the first kept row. `blocks` are dense ids
    from 0 in order of first use; block i covers tokens [i * block_size, (i + 1) * block_size) of the prompt, the last
    one possibly in part (the trace says by which rule). A turn with a `delay_us` goes that long after the turn before it
    in its session has ended, whenever that is; one without (None) goes at its arrival.
    """

    row: int
    session: str
    turn: int
    arrival_us: int
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    delay_us: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Rows in order of arrival, and what holds for all of them: tokens a block, and where the trace comes from."""

    requests: tuple[TraceRequest, ...]
    block_size: int
    source: str
    provenance: str
