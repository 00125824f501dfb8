"""How processes of ours talk: pickled values, each behind its length, over pipes that nobody else has."""

import asyncio
import os
import pickle
from typing import Any

_LENGTH_BYTES = 8


def encode(message: Any) -> bytes:
    """`message` as one frame."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


def write(descriptor: int, message: Any) -> None:
    """Write all of `message`. A pipe holds little, and its reader is quick: waiting for it is simpler than a queue."""
    left = memoryview(encode(message))
    while left:
        left = left[os.write(descriptor, left) :]


async def read(stream: asyncio.StreamReader) -> Any:
    """The next message; raises EOFError at the end of the stream, also within a frame."""
    try:
        length = int.from_bytes(await stream.readexactly(_LENGTH_BYTES), "big")
        data = await stream.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise EOFError from error
    return pickle.loads(data)  # noqa: S301 - from a process that we started, over a pipe that nobody else has
