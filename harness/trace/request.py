"""What happened: one typed row per request, whatever format it was read from."""

from dataclasses import dataclass

from harness.trace.options import ReadReport


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace.

    `row` is its position in the source, from 0. `arrival_us` counts from the first kept row. `blocks` are dense ids
    from 0 in order of first use; block i covers tokens [i * block_size, (i + 1) * block_size) of the prompt, the last
    one possibly in part (the trace says by which rule); what follows the last block is shared with no other request.
    `turn` counts the requests of a session, from 0. `delay_us` is the time from the end of the session's previous turn
    to this one, where the source says it: it goes that long after that end; one without (None) goes at its arrival.
    `request_id` is the source's own name of the request, or empty.
    """

    row: int
    session: str
    turn: int
    arrival_us: int
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    delay_us: int | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """Rows in order of arrival, and what holds for all of them: tokens a block, and where the trace comes from.

    `report` is what reading the file found; None for a trace that was made.
    """

    requests: tuple[TraceRequest, ...]
    block_size: int
    source: str
    provenance: str
    report: ReadReport | None = None
