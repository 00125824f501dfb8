"""A server whose answers are known: the client is measured against it, since what it claims can be checked here.

    python -m harness.stack.null_server --ttft-ms 50 --itl-ms 20

Answers POST /v1/completions and /v1/chat/completions with `max_tokens` tokens as server-sent events: the first
`--ttft-ms` after the request arrived, the others `--itl-ms` apart. GET /seen returns, as JSON, what it saw since it was
last asked: [X-Request-Id, arrival, [time of each token's write]] a request, in nanoseconds of CLOCK_MONOTONIC, the
clock that `time.perf_counter_ns` reads in every process of this machine. Every other GET is answered with {}. One line,
the URL, goes to stdout when it listens; SIGTERM ends it.
"""

import argparse
import asyncio
import gc
import os
import resource
import signal
import sys
import time
from typing import Any, cast

import httptools
import orjson
import uvloop

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_BACKLOG = 4096
_MOST_FILES = 65_536
_MAX_TOKENS = b'"max_tokens":'


class _Seen:
    """What one server promises, and what it saw."""

    def __init__(self, ttft_ms: float, itl_ms: float) -> None:
        self.ttft_ns, self.itl_ns = round(ttft_ms * 1e6), round(itl_ms * 1e6)
        self.rows: list[tuple[str, int, list[int]]] = []

    def page(self, path: bytes) -> bytes:
        """The answer to a GET."""
        if path == b"/seen":
            rows, self.rows = self.rows, []
            return orjson.dumps(rows)
        return b"{}"


class _Connection(asyncio.Protocol):
    """One connection; requests on it come one after the other."""

    _transport: asyncio.Transport

    def __init__(self, seen: _Seen) -> None:
        self._seen = seen
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._body: list[bytes] = []
        self._path, self._request_id = b"", ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Writes go to the kernel at once: their times are stamped."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Parse; what follows is called from here."""
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """The path, whole: clients of this server send short ones."""
        self._path = url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Only the request's id matters."""
        if name.lower() == b"x-request-id":
            self._request_id = value.decode()

    def on_body(self, body: bytes) -> None:
        """A part of it."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """The request has arrived: answer it."""
        arrived_ns = time.perf_counter_ns()
        body, self._body = b"".join(self._body), []
        if self._parser.get_method() != b"POST":
            page = self._seen.page(self._path)
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(page), page))
            return
        events = _events(_asked_tokens(body), chat=b"chat" in self._path)
        writes: list[int] = []
        self._seen.rows.append((self._request_id, arrived_ns, writes))
        self._when(arrived_ns + self._seen.ttft_ns, events, writes)

    def _when(self, due_ns: int, events: list[bytes], writes: list[int]) -> None:
        left_s = max(0.0, (due_ns - time.perf_counter_ns()) / 1e9)
        self._loop.call_later(left_s, self._write, due_ns, events, writes)

    def _write(self, due_ns: int, events: list[bytes], writes: list[int]) -> None:
        if self._transport.is_closing():
            return
        index = len(writes)
        writes.append(time.perf_counter_ns())
        self._transport.write(events[index])
        if len(writes) < len(events):
            self._when(due_ns + self._seen.itl_ns, events, writes)


def _asked_tokens(body: bytes) -> int:
    """`max_tokens` of a request, found at its end rather than by parsing 100 KB of token ids."""
    at = body.rfind(_MAX_TOKENS)
    if at >= 0:
        digits = body[at + len(_MAX_TOKENS) : at + len(_MAX_TOKENS) + 12].lstrip().split(b",")[0].rstrip(b"} ")
        if digits.isdigit():
            return int(digits)
    request: dict[str, Any] = orjson.loads(body)
    return int(request.get("max_tokens") or request.get("max_completion_tokens") or 1)


def _events(tokens: int, *, chat: bool) -> list[bytes]:
    """What to write at each token: the head goes with the first, the usage, [DONE] and the end with the last."""
    text: dict[str, Any] = {"delta": {"content": " w"}} if chat else {"text": " w"}
    kind = {"object": "chat.completion.chunk" if chat else "text_completion"}
    middle = _chunk({**kind, "choices": [{"index": 0, **text, "finish_reason": None}]})
    last = _chunk({**kind, "choices": [{"index": 0, **text, "finish_reason": "length"}]})
    usage = _chunk({**kind, "choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": tokens}})
    done = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
    events = [middle] * (tokens - 1) + [last + usage + done]
    events[0] = _HEAD + events[0]
    return events


def _chunk(message: dict[str, Any]) -> bytes:
    data = b"data: %b\n\n" % orjson.dumps(message)
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _serve(seen: _Seen, port: int) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(lambda: _Connection(seen), "127.0.0.1", port, backlog=_BACKLOG)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    gc.freeze()
    gc.disable()  # it lives for minutes; a collection would be a late answer
    await stop.wait()


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--ttft-ms", type=float, default=50.0)
    parser.add_argument("--itl-ms", type=float, default=0.0)
    args = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.close(
        os.dup2(0, min(hard, _MOST_FILES) - 1)
    )  # see harness.client.open_files: a table that grows is a late answer
    uvloop.run(_serve(_Seen(args.ttft_ms, args.itl_ms), args.port))


if __name__ == "__main__":
    main()
