"""Reading an answer."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.client.read_response import Answer, read_answer
from harness.records import Outcome
from tests.fakes.transport import DONE, FINISH, USAGE, token

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "usage", "text", "error", "message", "prompt_tokens", "prompt_tokens_details"]),
            inner,
        )
    ),
    max_leaves=12,
)


def _event(message: Any) -> bytes:
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def test_a_whole_answer() -> None:
    """Tokens are timed by their events, counts come from usage, and the answer is ok."""
    answer = read_answer(200, [(10, token("a")), (20, token("b")), (30, FINISH + USAGE + DONE)])
    counts = {"prompt_tokens": 3, "completion_tokens": 2, "cached_tokens": 1}
    assert answer == Answer(Outcome.OK, None, chunk_ns=(10, 20), text="ab", **counts)
    assert (answer.first_token_ns, answer.last_token_ns) == (10, 20)


def test_the_response_has_the_engines_id() -> None:
    """As its first event gives it; an id that is no text is none."""
    first, later = ({"id": name, "choices": []} for name in ("cmpl-kvr-1", "cmpl-other"))
    assert read_answer(200, [(0, _event(first) + _event(later))]).response_id == "cmpl-kvr-1"
    assert read_answer(200, [(0, _event({"id": 7, "choices": []}))]).response_id is None


def test_an_empty_chunk_is_no_token() -> None:
    """Time to first token ends at the first text, not at a first event that has none."""
    answer = read_answer(200, [(10, token("")), (20, token("a")), (30, FINISH + DONE)])
    assert (answer.outcome, answer.first_token_ns, answer.chunk_ns) == (Outcome.OK, 20, (20,))


def test_the_last_usage_counts() -> None:
    """With continuous usage every event has counts; the last ones hold, and details that are null stay unknown."""
    early = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": None}}
    late = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 9, "prompt_tokens_details": None}}
    silent = {"choices": [], "usage": None}
    answer = read_answer(200, [(0, _event(early) + _event(late) + _event(silent))])
    assert (answer.completion_tokens, answer.cached_tokens) == (9, None)


def test_what_the_server_did_not_say_is_unknown() -> None:
    """Without usage the counts are None, never 0; a cached count of 0 is 0."""
    assert read_answer(200, [(0, token("a") + FINISH + DONE)]).completion_tokens is None
    zero = {"choices": [], "usage": {"prompt_tokens_details": {"cached_tokens": 0}}}
    assert read_answer(200, [(0, _event(zero))]).cached_tokens == 0


def test_the_answer_is_the_text_of_all_its_chunks() -> None:
    """In order, empty ones left out; no token, no text."""
    assert read_answer(200, [(0, token("a") + token(" b") + FINISH + DONE)]).text == "a b"
    assert read_answer(200, [(0, FINISH + DONE)]).text is None


def test_kv_transfer_params_change_nothing() -> None:
    """Fields that we do not know are passed over."""
    extra = _event({"choices": [{"text": "a"}], "kv_transfer_params": {"cached_token_stats": {"error": 1}}})
    assert read_answer(200, [(5, extra + FINISH + DONE)]) == Answer(Outcome.OK, None, chunk_ns=(5,), text="a")


@pytest.mark.parametrize(
    ("body", "outcome", "error"),
    [
        (token("a") + _event({"error": {"message": "load failed"}}) + DONE, Outcome.HTTP_ERROR, "load failed"),
        (token("a") + _event({"error": "load failed"}) + DONE, Outcome.HTTP_ERROR, "load failed"),
        (_event({"error": {"code": 500}}) + DONE, Outcome.HTTP_ERROR, '{"error": {"code": 500}}'),
        (
            _event({"choices": [{"text": "", "finish_reason": "abort"}]}) + DONE,
            Outcome.HTTP_ERROR,
            "finish_reason: abort",
        ),
        (b"data: {oops\n\n" + FINISH + DONE, Outcome.HTTP_ERROR, "{oops"),
        (token("a") + FINISH, Outcome.TRUNCATED, "the stream ended without [DONE]"),
        (token("a") + DONE, Outcome.TRUNCATED, "the stream ended without a finish_reason"),
        (b"", Outcome.TRUNCATED, "the stream ended without a finish_reason"),
        (token("a") + FINISH + b"data: [DONE]\n", Outcome.TRUNCATED, "the stream ended without [DONE]"),
    ],
)
def test_answers_that_are_not_ok(body: bytes, outcome: Outcome, error: str) -> None:
    """A status of 200 is no success by itself; the error says what was wrong, in the server's words if it has any."""
    answer = read_answer(200, [(7, body)])
    assert (answer.outcome, answer.error) == (outcome, error)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"error":{"message":"too long","code":400}}', "too long"),
        (b'{"detail":"Not Found"}', '{"detail":"Not Found"}'),
        (b"bad gateway \xff", "bad gateway \ufffd"),
        (b"x" * 10_000, "x" * 500),
        (b"", "status 503"),
    ],
)
def test_other_statuses(body: bytes, error: str) -> None:
    """A status other than 200 is http_error with the server's message, however the body was split, and short."""
    halves = [(1, body[: len(body) // 2]), (2, body[len(body) // 2 :])]
    assert read_answer(503, halves) == Answer(Outcome.HTTP_ERROR, error)


def test_no_response_is_truncated() -> None:
    """Where no status ever came, nothing else can be said."""
    assert read_answer(None, []).outcome is Outcome.TRUNCATED


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20) | json_values.map(_event), max_size=8), st.sampled_from([200, 404, 500]))
def test_nothing_a_server_says_raises(parts: list[bytes], status: int) -> None:
    """Whatever the bytes, there is an answer, and it is not ok without a reason to finish."""
    answer = read_answer(status, list(enumerate(parts)))
    assert answer.outcome in (Outcome.HTTP_ERROR, Outcome.TRUNCATED)
    assert answer.error


def test_a_chat_is_read_like_a_completion() -> None:
    """The first delta only names the role and is no token; spoken and thought text are tokens; usage comes last."""
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hm"},
        {"content": " a"},
        {"content": None},
    ]
    chunks = [(at, _event({"choices": [{"index": 0, "delta": delta}]})) for at, delta in enumerate(deltas)]
    end = _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + USAGE + DONE
    answer = read_answer(200, [*chunks, (9, end)])
    assert (answer.outcome, answer.chunk_ns, answer.text) == (Outcome.OK, (1, 2), "hm a")
    assert answer.completion_tokens == 2
