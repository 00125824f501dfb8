"""One blocking connection to one Valkey instance: pipelined requests, a deadline on everything, values never copied."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from harness.plugins.address import Address, Entry
from harness.plugins.resp import BUFFER_BYTES, CRLF, ProtocolError, ReplyReader, command, command_head

PIPELINE_DEPTH = 32  # requests sent before their replies are read: bounds what the server must buffer for us
_CONNECT_TIMEOUT_S = 3.0  # long enough for one lost SYN (repeated after 1 s, RFC 6298)
_RETRY_PAUSE_S = 0.25  # after a failed connect, doubled with each: a dead instance costs an attempt now and then,
_LONGEST_PAUSE_S = 4.0  # not one a request


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

    Deadlines are moments of time.monotonic(). Before them, `silence_s` in which no byte moves is a TimeoutError too: an
    instance that hangs is found out sooner than a slow one is given up. Every OSError from here (TimeoutError and
    ProtocolError included) means that the connection is out of step: `drop` it before the next use. `tried_s` is when
    the instance was last tried to be reached.
    """

    def __init__(self, address: Address, entry: Entry, silence_s: float) -> None:
        self._address = address
        self._entry = entry
        self._silence_s = silence_s
        # The kernel may wait for the rest before it sends; a TLS socket takes no flags.
        self._more = 0 if address.tls else socket.MSG_MORE
        self._bounded_s = 0.0
        self._lock = threading.Lock()
        self._closed = False
        self._socket: socket.socket | None = None
        self._reader = ReplyReader(self._receive_into)
        self._deadline = 0.0
        self.tried_s = 0.0
        self._retry_at = 0.0
        self._pause_s = _RETRY_PAUSE_S

    @property
    def is_open(self) -> bool:
        """Whether `open` has succeeded since the last `drop`."""
        return self._socket is not None

    def open(self, deadline: float) -> None:
        """Connect, log in and have a PING answered. Raises OSError; for a moment after a failure, without trying."""
        if time.monotonic() < self._retry_at:
            raise ConnectionError("the instance could not be reached a moment ago")
        self.tried_s = time.monotonic()
        self._deadline = min(deadline, time.monotonic() + _CONNECT_TIMEOUT_S)
        try:
            self._connect(self._patience_s())
            if self._entry.password:
                words = [word.encode() for word in (self._entry.username, self._entry.password) if word]
                self._greet(b"AUTH", *words)
            self._greet(b"PING")
        except OSError:
            self.drop()
            self._retry_at = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
            raise
        self._pause_s = _RETRY_PAUSE_S

    def exchange(self, requests: Sequence[Request], deadline: float) -> Iterator[bool | str]:
        """Do `requests` in order, pipelined; for each, as soon as it is known: True, False, or the server's error.

        True: the value of a GET has the size of its memory and is in it; the SET is stored; the key exists; the
        key was deleted. A value of another size is passed over and gives False; the memory is then as it was.
        """
        self._deadline, self.tried_s = deadline, time.monotonic()
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
                    # Not SSLSocket.shutdown: it would take the session away under the thread that reads from it.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                except OSError:
                    return  # already disconnected: nothing waits on it

    def _connect(self, timeout_s: float) -> None:
        address = self._address
        target: tuple[str, int] | str
        if address.path:
            family, target = socket.AF_UNIX, address.path
        else:
            family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
            target = (address.host, address.port)
        plain = self._adopt(socket.socket(family, socket.SOCK_STREAM))
        plain.settimeout(timeout_s)
        plain.connect(target)
        if family != socket.AF_UNIX:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.tls:
            context = self._entry.tls or ssl.create_default_context()
            secure = context.wrap_socket(plain, server_hostname=address.host, do_handshake_on_connect=False)
            self._adopt(secure)
            secure.do_handshake()
        else:
            plain.settimeout(None)
            self._bound(plain, timeout_s)
        self._reader = ReplyReader(self._receive_into)

    def _adopt(self, opened: socket.socket) -> socket.socket:
        """Make `opened` the socket that `close` interrupts; after `close` it is closed at once."""
        with self._lock:
            if self._closed:
                opened.close()
                raise ConnectionError("the client is closed")
            self._socket = opened
        return opened

    def _greet(self, *words: bytes) -> None:
        self._push(memoryview(command(*words)))
        answer = self._reader.reply()
        if answer.kind != "+":
            raise ProtocolError(f"{words[0].decode()} was answered with {answer.text[:80]!r}")

    def _send(self, requests: Sequence[Request]) -> None:
        pending = b""
        for operation, key, value in requests:
            if operation is Operation.SET and value is not None:
                pending += command_head(operation.value, key, last_bytes=len(value))
                self._push(memoryview(pending), self._more)
                self._push(value, self._more)
                pending = CRLF
            else:
                pending += command(operation.value, key)
        self._push(memoryview(pending))

    def _push(self, data: memoryview, flags: int = 0) -> None:
        """Send all of `data`. Not sendall: its timeout would bound the whole, not a silence."""
        while data:
            try:
                data = data[self._usable().send(data, flags) :]
            except BlockingIOError:
                raise TimeoutError("timed out") from None

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
        # A value is waited for in the kernel, whole: woken for each packet, threads would fight for the interpreter.
        flags = socket.MSG_WAITALL if len(view) > BUFFER_BYTES and not self._address.tls else 0
        try:
            return self._usable().recv_into(view, 0, flags)
        except BlockingIOError:
            raise TimeoutError("timed out") from None

    def _usable(self) -> socket.socket:
        """The socket, bounded by how long it may be silent."""
        if self._socket is None:
            raise ConnectionError("not connected")
        patience_s = self._patience_s()
        if self._address.tls:
            self._socket.settimeout(patience_s)
        elif patience_s < self._bounded_s or self._bounded_s < self._silence_s:
            self._bound(self._socket, patience_s)
        return self._socket

    def _bound(self, plain: socket.socket, seconds: float) -> None:
        """Let the kernel end a send or receive after `seconds` in which it waited (socket(7), SO_RCVTIMEO).

        A Python timeout would ask the kernel three times for each packet: to set it, to wait, to receive.
        """
        whole, part = divmod(max(int(seconds * 1e6), 1), 1_000_000)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            plain.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", whole, part))
        self._bounded_s = seconds

    def _patience_s(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return min(left, self._silence_s)
