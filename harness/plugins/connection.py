"""One blocking connection to one Valkey instance: pipelined requests, a deadline on everything, values never copied."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from harness.plugins.resp import CRLF, ProtocolError, ReplyReader, command, command_head

PIPELINE_DEPTH = 32  # requests sent before their replies are read: bounds what the server must buffer for us
_CONNECT_TIMEOUT_S = 3.0  # long enough for one lost SYN (repeated after 1 s, RFC 6298)
_RETRY_PAUSE_S = 0.25  # after a failed connect: a dead instance costs one attempt in this time, not one a request


class Operation(Enum):
    """The commands of the client."""

    GET = b"GET"
    SET = b"SET"
    EXISTS = b"EXISTS"
    DELETE = b"DEL"


class Request(NamedTuple):
    """One command. `value` is the memory that a GET fills or a SET sends, one byte an item; None for the others."""

    operation: Operation
    key: bytes
    value: memoryview | None = None


class Connection:
    """A connection that is opened when needed. One thread uses it; any thread may `close` it.

    Deadlines are moments of time.monotonic(). Every OSError from here (TimeoutError and ProtocolError included) means
    that the connection is out of step: `drop` it before the next use.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._lock = threading.Lock()
        self._closed = False
        self._socket: socket.socket | None = None
        self._reader = ReplyReader(self._receive_into)
        self._deadline = 0.0
        self._retry_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether `open` has succeeded since the last `drop`."""
        return self._socket is not None

    def open(self, deadline: float) -> None:
        """Connect and have a PING answered. Raises OSError; for a moment after a failure, without trying."""
        if time.monotonic() < self._retry_at:
            raise ConnectionError("the instance could not be reached a moment ago")
        self._deadline = min(deadline, time.monotonic() + _CONNECT_TIMEOUT_S)
        try:
            self._connect(self._remaining_s())
            self._usable().sendall(command(b"PING"))
            answer = self._reader.reply()
            if answer.kind != "+":
                raise ProtocolError(f"PING was answered with {answer.text[:80]!r}")
        except OSError:
            self.drop()
            self._retry_at = time.monotonic() + _RETRY_PAUSE_S
            raise

    def exchange(self, requests: Sequence[Request], deadline: float) -> Iterator[bool | str]:
        """Do `requests` in order, pipelined; for each, as soon as it is known: True, False, or the server's error.

        True: the value of a GET has the size of its memory and is in it; the SET is stored; the key exists; the
        key was deleted. A value of another size is passed over and gives False; the memory is then as it was.
        """
        self._deadline = deadline
        for first in range(0, len(requests), PIPELINE_DEPTH):
            burst = requests[first : first + PIPELINE_DEPTH]
            self._send(burst)
            for request in burst:
                yield self._outcome(request)

    def drop(self) -> None:
        """Forget the connection; the next use needs `open`."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def close(self) -> None:
        """End a running `open` or `exchange` with an OSError at once, and refuse every later one."""
        with self._lock:
            self._closed = True
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # already disconnected: nothing waits on it

    def _connect(self, timeout_s: float) -> None:
        family = socket.getaddrinfo(*self._address, type=socket.SOCK_STREAM)[0][0]
        with self._lock:
            if self._closed:
                raise ConnectionError("the client is closed")
            self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(timeout_s)
        self._socket.connect(self._address)
        self._reader = ReplyReader(self._receive_into)

    def _send(self, requests: Sequence[Request]) -> None:
        stream = self._usable()
        pending = b""
        for operation, key, value in requests:
            if operation is Operation.SET and value is not None:
                pending += command_head(operation.value, key, last_bytes=len(value))
                stream.sendall(pending, socket.MSG_MORE)
                stream.settimeout(self._remaining_s())
                stream.sendall(value, socket.MSG_MORE)
                stream.settimeout(self._remaining_s())
                pending = CRLF
            else:
                pending += command(operation.value, key)
        stream.sendall(pending)

    def _outcome(self, request: Request) -> bool | str:
        reply = self._reader.reply()
        if reply.kind == "-":
            return reply.text
        if request.operation is Operation.GET and reply.kind == "$":
            return self._value(reply.integer(), request.value)
        if request.operation is Operation.SET and reply.kind == "+":
            return True
        if request.operation in (Operation.EXISTS, Operation.DELETE) and reply.kind == ":":
            return reply.integer() > 0
        raise ProtocolError(f"{request.operation.name} was answered with {reply.kind}{reply.text[:80]!r}")

    def _value(self, size_bytes: int, memory: memoryview | None) -> bool:
        if size_bytes < 0:
            return False
        if memory is None or len(memory) != size_bytes:
            self._reader.skip_payload(size_bytes)
            return False
        self._reader.payload_into(memory)
        return True

    def _receive_into(self, view: memoryview) -> int:
        return self._usable().recv_into(view)

    def _usable(self) -> socket.socket:
        """The socket, its timeout set to what is left until the deadline."""
        if self._socket is None:
            raise ConnectionError("not connected")
        self._socket.settimeout(self._remaining_s())
        return self._socket

    def _remaining_s(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return left
