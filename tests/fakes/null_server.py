"""A server whose answers are known: /v1/completions as server-sent events at fixed times, and every way to fail.

In a test:  async with NullServer(Behaviour(ttft_s=0.05)) as server: ... server.url
In a shell: python null_server.py --ttft-s 0.05 --itl-s 0.01   (prints its URL; ends on SIGTERM or SIGINT)
"""

import argparse
import asyncio
import json
import signal
import socket
import ssl
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Self

MODES = (
    *("answer", "hang", "hang_mid_stream", "silent_200", "truncate", "disconnect", "error_event", "not_http"),
    *("reset", "reset_in_headers", "reset_in_stream", "garbage_in_stream", "slow_reader", "until_close"),
    *("http_400", "http_429", "http_500", "http_503"),
)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s: close() sends RST
_SLOW_READ_BYTES, _SLOW_READ_S = 1 << 18, 0.005


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the server does with a request.

    `ttft_s` runs from the request's arrival to its first token and `itl_s` between tokens; `mode` is one of MODES, for
    every request or only for the one whose id ends in `only_seq`, and for the first `only_first` of them;
    `split_bytes` writes the body in pieces of that size (0: one piece an event); `cached_tokens` goes into usage.
    """

    ttft_s: float = 0.0
    itl_s: float = 0.0
    mode: str = "answer"
    only_seq: int = -1
    only_first: int = 1 << 30
    split_bytes: int = 0
    cached_tokens: int = 0


@dataclass(slots=True)
class Arrival:
    """A request as the server saw it; times are `time.perf_counter_ns` of the server's process."""

    request_id: str
    headers: dict[str, str]
    arrived_ns: int
    first_write_ns: int | None = None


@dataclass(slots=True)
class NullServer:
    """Listens on a free port of 127.0.0.1 as an async context manager; `behaviour` may change at any time."""

    behaviour: Behaviour = field(default_factory=Behaviour)
    port: int = 0
    tls: ssl.SSLContext | None = None
    url: str = ""
    arrivals: list[Arrival] = field(default_factory=list)
    running: int = 0
    accepted: int = 0
    _server: asyncio.Server | None = None
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, backlog=4096, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def open_connections(self) -> int:
        """Connections that are being served or kept alive."""
        return len(self._connections)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        self.accepted += 1
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            goes_on = True
            while goes_on:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
                }
                mode = self._mode(headers.get("x-request-id", ""))
                body = await _read_body(reader, int(headers.get("content-length", "0")), slowly=mode == "slow_reader")
                if head[0].startswith("GET "):
                    writer.write(_page(head[0].split(" ")[1], self.running))
                    continue
                arrival = Arrival(headers.get("x-request-id", ""), headers, time.perf_counter_ns())
                self.arrivals.append(arrival)
                known = ("POST /v1/completions ", "POST /v1/chat/completions ")
                request = json.loads(body) if head[0].startswith(known) else None
                self.running += 1
                try:
                    goes_on = await _Reply(writer, arrival, self.behaviour, mode).give(request)
                finally:
                    self.running -= 1
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    def _mode(self, request_id: str) -> str:
        wanted = self.behaviour.only_seq
        meant = wanted < 0 or request_id.endswith(f"-{wanted}")
        return self.behaviour.mode if meant and len(self.arrivals) < self.behaviour.only_first else "answer"


async def _read_body(reader: asyncio.StreamReader, size: int, *, slowly: bool) -> bytes:
    if not slowly:
        return await reader.readexactly(size)
    pieces = []
    while size:
        pieces.append(await reader.readexactly(min(size, _SLOW_READ_BYTES)))
        size -= len(pieces[-1])
        await asyncio.sleep(_SLOW_READ_S)
    return b"".join(pieces)


@dataclass(slots=True)
class _Reply:
    writer: asyncio.StreamWriter
    arrival: Arrival
    behaviour: Behaviour
    mode: str

    async def give(self, request: dict[str, object] | None) -> bool:  # noqa: PLR0911 - a return a fault
        """Answer; False ends the connection."""
        if request is None:
            self._plain("404 Not Found", b"{}")
            return True
        match self.mode:
            case "http_400" | "http_429" | "http_500" | "http_503":
                code = self.mode.removeprefix("http_")
                self._plain(f"{code} Sorry", b'{"error":{"message":"sorry: %b","code":%b}}' % ((code.encode(),) * 2))
                return True
            case "reset":
                return self._reset()
            case "reset_in_headers":
                self.writer.write(b"HTTP/1.1 200 OK\r\ncontent-ty")
                await asyncio.sleep(0.05)
                return self._reset()
            case "until_close":
                self.writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
                for message in (_token("length"), "[DONE]"):
                    self.writer.write(_data(message))
                return False
            case "silent_200":
                self.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                await asyncio.sleep(3600)
            case "not_http":
                self.writer.write(b"hello there\r\n\r\n")
                return False
            case "disconnect":
                return False
            case "hang":
                await asyncio.sleep(3600)
        return await self._stream(request)

    async def _stream(self, request: dict[str, object]) -> bool:
        mode, tokens = self.mode, int(str(request["max_tokens"]))
        self.writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for index in range(tokens):
            due_s = self.behaviour.ttft_s + index * self.behaviour.itl_s
            await self._sleep_until(self.arrival.arrived_ns + round(due_s * 1e9))
            self.arrival.first_write_ns = self.arrival.first_write_ns or time.perf_counter_ns()
            if mode == "error_event" and index == tokens - 1:
                await self._event({"error": {"message": "load failed", "type": "InternalServerError", "code": 500}})
                break
            await self._event(_token("length" if index == tokens - 1 else None))
            if mode == "truncate":
                return False
            if mode == "reset_in_stream":
                await asyncio.sleep(0.05)
                return self._reset()
            if mode == "garbage_in_stream":
                self.writer.write(b"\x00zz\r\n not a chunk")
                return False
            if mode == "hang_mid_stream":
                await asyncio.sleep(3600)
        else:
            await self._event(_usage(request, tokens, self.behaviour.cached_tokens))
        await self._event("[DONE]")
        self.writer.write(b"0\r\n\r\n")
        return True

    async def _sleep_until(self, due_ns: int) -> None:
        left_ns = due_ns - time.perf_counter_ns()
        if left_ns > 0:
            await asyncio.sleep(left_ns / 1e9)

    def _reset(self) -> bool:
        endpoint = self.writer.transport.get_extra_info("socket")
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.writer.transport.abort()
        return False

    async def _event(self, message: dict[str, object] | str) -> None:
        data = _data(message)
        if self.writer.is_closing():
            raise ConnectionResetError("the client is gone")
        size = self.behaviour.split_bytes or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self.writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await asyncio.sleep(0)
        await self.writer.drain()

    def _plain(self, status: str, body: bytes) -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)


def _data(message: dict[str, object] | str) -> bytes:
    return b"data: " + (message if isinstance(message, str) else json.dumps(message)).encode() + b"\n\n"


def _page(path: str, running: int) -> bytes:
    """/health, and of vLLM's /metrics the two gauges that say whether it is idle."""
    gauges = f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\n".encode()
    body = gauges if path == "/metrics" else b"{}"
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def _token(finish: str | None) -> dict[str, object]:
    return {"object": "text_completion", "choices": [{"index": 0, "text": " w", "finish_reason": finish}]}


def _usage(request: dict[str, object], tokens: int, cached_tokens: int) -> dict[str, object]:
    prompt = request.get("prompt", request.get("messages"))
    prompt_tokens = len(prompt) if isinstance(prompt, list) else len(str(prompt)) // 4
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": prompt_tokens + tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }
    return {"object": "text_completion", "choices": [], "usage": usage}


async def _main(behaviour: Behaviour) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with NullServer(behaviour) as server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        await stop.wait()


def _from_command_line() -> Behaviour:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for knob in fields(Behaviour):
        choices = MODES if knob.name == "mode" else None
        parser.add_argument(
            f"--{knob.name.replace('_', '-')}", type=type(knob.default), default=knob.default, choices=choices
        )
    return Behaviour(**vars(parser.parse_args()))


if __name__ == "__main__":
    asyncio.run(_main(_from_command_line()))
