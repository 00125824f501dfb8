"""What a response of completions or chat completions says, read once its last byte is in."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from harness.client.sse import Event, decode_events
from harness.records import Outcome

_ERROR_CHARACTERS = 500
"""Of a server's error text that a record keeps."""

_FAILED_FINISH = ("error", "abort")
"""finish_reason of a request that vLLM gave up on."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Facts of one response. Times are the clock's (ns); what the server did not say is None.

    `outcome` is ok, http_error or truncated; `error` says why it is not ok. A chunk is an event with non-empty text:
    the first is the first token, and `chunk_ns` has the time of each; `text` is all of them together.
    `server_queue_ms` and `server_prefill_ms` are vLLM's `queue_time_ms` and `time_to_first_token_ms`, which it counts
    from the first step that had the request in it (--enable-per-request-metrics). `response_id` is the id it gave.
    """

    outcome: Outcome
    error: str | None = None
    chunk_ns: tuple[int, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    text: str | None = None
    server_queue_ms: float | None = None
    server_prefill_ms: float | None = None
    response_id: str | None = None

    @property
    def first_token_ns(self) -> int | None:
        """When the first non-empty text was complete."""
        return self.chunk_ns[0] if self.chunk_ns else None

    @property
    def last_token_ns(self) -> int | None:
        """When the last non-empty text was complete."""
        return self.chunk_ns[-1] if self.chunk_ns else None


def read_answer(status: int | None, chunks: Sequence[tuple[int, bytes]]) -> Answer:
    """Read a response given as its HTTP status (None if it never came) and timed bytes of its body. Never raises.

    Ok takes status 200, a finish_reason, and the closing [DONE]. Another status, an error event inside the stream, a
    finish_reason of error or abort, or an event that is not JSON is http_error; a stream that merely stops is
    truncated. Token counts come from the last `usage`; its `prompt_tokens_details.cached_tokens` (vLLM with
    --enable-prompt-tokens-details) counts local and external hits together.
    """
    if status is None:
        return Answer(Outcome.TRUNCATED, "the server sent no response")
    if status != 200:
        return Answer(Outcome.HTTP_ERROR, _body_error(b"".join([data for _, data in chunks])) or f"status {status}")
    return _read_stream(decode_events(chunks))


def _read_stream(events: list[Event]) -> Answer:
    chunk_ns: list[int] = []
    texts: list[str] = []
    usage: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    finish: str | None = None
    error: str | None = None
    response_id: str | None = None
    done = False
    for event in events:
        if event.data == b"[DONE]":
            done = True
            break
        message = _object(event.data)
        if message is None or message.get("error"):
            error = error or _body_error(event.data) or "an empty event"
            continue
        response_id = response_id or _word(message, "id")
        for choice in _choices(message):
            if text := _text(choice):
                chunk_ns.append(event.t_ns)
                texts.append(str(text))
            finish = choice.get("finish_reason") or finish
        usage = _child(message, "usage") or usage
        metrics = _child(message, "metrics") or metrics
    if error is None and finish in _FAILED_FINISH:
        error = f"finish_reason: {finish}"
    outcome, why = (Outcome.HTTP_ERROR, error) if error else _completeness(finish, done)
    return Answer(
        outcome,
        why,
        tuple(chunk_ns),
        _count(usage, "prompt_tokens"),
        _count(usage, "completion_tokens"),
        _count(_child(usage, "prompt_tokens_details"), "cached_tokens"),
        "".join(texts) or None,
        _duration_ms(metrics, "queue_time_ms"),
        _duration_ms(metrics, "time_to_first_token_ms"),
        response_id,
    )


def _text(choice: dict[str, Any]) -> Any:
    """What a choice adds to the answer: `text` of a completion, else the delta of a chat, spoken or thought."""
    if "delta" not in choice:
        return choice.get("text")
    delta = _child(choice, "delta")
    return delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning")


def _completeness(finish: str | None, done: bool) -> tuple[Outcome, str | None]:
    if finish is None:
        return Outcome.TRUNCATED, "the stream ended without a finish_reason"
    if not done:
        return Outcome.TRUNCATED, "the stream ended without [DONE]"
    return Outcome.OK, None


def _body_error(body: bytes) -> str:
    """The server's own message where the body is an OpenAI error object, else the body's first characters."""
    message = _object(body) or {}
    error = message.get("error")
    text = error.get("message") if isinstance(error, dict) else error
    return (text if isinstance(text, str) and text else body.decode("utf-8", "replace"))[:_ERROR_CHARACTERS]


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _child(value: dict[str, Any], key: str) -> dict[str, Any]:
    child = value.get(key)
    return child if isinstance(child, dict) else {}


def _choices(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    choices = message.get("choices")
    return (choice for choice in choices if isinstance(choice, dict)) if isinstance(choices, list) else iter(())


def _count(value: dict[str, Any], key: str) -> int | None:
    count = value.get(key)
    return count if isinstance(count, int) else None


def _word(value: dict[str, Any], key: str) -> str | None:
    word = value.get(key)
    return word if isinstance(word, str) and word else None


def _duration_ms(value: dict[str, Any], key: str) -> float | None:
    duration = value.get(key)
    return float(duration) if isinstance(duration, int | float) and math.isfinite(duration) else None
