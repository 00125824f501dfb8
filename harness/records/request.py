"""One planned request and what became of it."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a planned request ended. Every planned request ends as exactly one of these."""

    OK = "ok"
    HTTP_ERROR = "http_error"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"
    CANCELLED = "cancelled"
    NOT_SENT = "not_sent"


@dataclass(frozen=True, slots=True)
class Cell:
    """Where in a run a request belongs: one arm, one workload, one pass of one repeat.

    `segment` makes request ids unique: it counts the passes an arm has replayed since its start, warm-ups included.
    `t0_ns` is the monotonic origin of the run and `t0_unix_ns` the wall clock read at that instant.
    """

    run_id: str
    experiment: str
    arm: str
    workload: str
    pass_name: str
    repeat: int
    segment: str
    t0_ns: int
    t0_unix_ns: int

    def request_id(self, seq: int) -> str:
        """The X-Request-Id of request `seq`; LMCache's log repeats it, so client, engine and cache join on it."""
        return f"kvr-{self.run_id}{self.segment}-{seq}"


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """Facts about one planned request. Times are ns since the run's origin; what did not happen is None, never 0.

    `due_ns` is when the plan wanted it sent, `sent_ns` when it was, `first_token_ns` when the bytes of the first
    non-empty token arrived, `last_token_ns` the same for the last token, `done_ns` when the stream ended.
    `chunk_ns` has one time per event that carried text. `cached_tokens` is the server's own word (local + external).
    `output_text` is the answer: equal prompts answered from any cache must have equal ones, but for rounding.
    `attempts` counts the sends: more than one where retries were asked for, and the stamps are those of the last.
    `server_queue_ms` and `server_prefill_ms` are the engine's own words: from its queue to the first step that had the
    request in it, and from there to the first token. `placement_slowdown`: how many times as long as an equal share of
    the remote tier's instances the prompt's whole chunks take to arrive, where it is known which instance has which.
    `response_id` is what the engine calls the request.
    """

    cell: Cell
    seq: int
    row: int
    session: str
    prompt_tokens_planned: int
    max_tokens: int
    due_ns: int
    outcome: Outcome
    source: str = "live"
    sent_ns: int | None = None
    headers_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    done_ns: int | None = None
    chunk_ns: tuple[int, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    local_cached_tokens: int | None = None
    external_cached_tokens: int | None = None
    predicted_cached_tokens: int | None = None
    status: int | None = None
    error: str | None = None
    queue_ms: float | None = None
    load_ms: float | None = None
    recompute_ms: float | None = None
    output_text: str | None = None
    attempts: int | None = None
    server_queue_ms: float | None = None
    server_prefill_ms: float | None = None
    placement_slowdown: float | None = None
    response_id: str | None = None

    @property
    def request_id(self) -> str:
        """The id this request carried in X-Request-Id."""
        return self.cell.request_id(self.seq)
