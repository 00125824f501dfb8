"""The HTTP body."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.schedule import Prompting, encode_body

PROMPTING = Prompting("tiny-8l", "salt", 10, 32_000)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50), st.integers(1, 2000), st.integers(1, 3))
def test_body_asks_for_exactly_these_tokens(tokens: list[int], max_tokens: int, step: int) -> None:
    """The body is JSON of the prompt's ids, a fixed output length, greedy, streamed; strides do not matter."""
    strided = np.repeat(np.array(tokens, dtype=np.uint32), step)[::step]

    assert json.loads(encode_body(PROMPTING, strided, max_tokens)) == {
        "model": "tiny-8l",
        "prompt": tokens,
        "max_tokens": max_tokens,
        "min_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_another_process_makes_the_same_bytes() -> None:
    """Equal requests are equal bytes, whatever the process and its hash seed."""
    program = (
        "import sys, numpy as np; from harness.schedule import Prompting, encode_body;"
        "sys.stdout.buffer.write(encode_body(Prompting('m', 's', 0, 9), np.array([3, 1], dtype='u4'), 4))"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "7"}, capture_output=True, check=True
    ).stdout

    assert out == encode_body(Prompting("m", "s", 0, 9), np.array([3, 1], dtype="u4"), 4)


def test_a_chat_takes_words() -> None:
    """Each id is a word of its own, so prompts that begin alike still do; the rest is asked as of a completion."""
    tokens = np.array([7, 31_999, 8], dtype=np.uint32)
    chat = json.loads(encode_body(replace(PROMPTING, chat=True), tokens, 4))
    plain = json.loads(encode_body(PROMPTING, tokens, 4))
    assert chat.pop("messages") == [{"role": "user", "content": "w7 w31999 w8"}]
    assert plain.pop("prompt") == [7, 31_999, 8]
    assert chat == plain
