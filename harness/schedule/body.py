"""The HTTP body of a request: what vLLM's /v1/completions is asked, as bytes made before time zero."""

import numpy as np
import orjson

from harness.schedule.plan import PlannedRequest, TokenIds
from harness.schedule.tokens import Prompting


def encode_body(prompting: Prompting, tokens: TokenIds, max_tokens: int) -> bytes:
    """JSON that asks for exactly `max_tokens` tokens, streamed, greedy, with the server's own token counts at the end.

    Prompts go as token ids, so that the server counts what we planned; keys are in a fixed order, so that equal input
    gives equal bytes. A chat takes no ids: there each id i goes as the word `wi`, which is one token in the vocabulary
    of the models made here (stack.tiny_model) and a few in any other; equal prefixes stay equal.
    """
    if prompting.chat:
        words = " ".join([f"w{token}" for token in tokens.tolist()])
        asked: dict[str, object] = {"messages": [{"role": "user", "content": words}]}
    else:
        asked = {"prompt": np.ascontiguousarray(tokens)}
    return orjson.dumps(
        {
            "model": prompting.model,
            **asked,
            "max_tokens": max_tokens,
            "min_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        option=orjson.OPT_SERIALIZE_NUMPY,
    )


def closed_loop_request(
    prompting: Prompting, tokens: TokenIds, *, seq: int, row: int, max_tokens: int
) -> PlannedRequest:
    """A request without a session that is due when its predecessor ends."""
    return PlannedRequest(
        seq=seq,
        row=row,
        session="",
        due_ns=None,
        tokens=tokens,
        max_tokens=max_tokens,
        body=encode_body(prompting, tokens, max_tokens),
    )
