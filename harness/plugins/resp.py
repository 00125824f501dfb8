"""RESP2, the part of Valkey's protocol that a key-value client needs: commands out, replies in.

Source: https://valkey.io/topics/protocol/ . Nothing here does I/O: the reader is given a function that receives.
"""

from collections.abc import Callable
from typing import NamedTuple

CRLF = b"\r\n"
BUFFER_BYTES = 4096  # how much of a value may arrive beside its header, and be copied once


class ProtocolError(ConnectionError):
    """Bytes that RESP2 does not allow here: the connection is out of step and must be dropped."""


class Reply(NamedTuple):
    """A reply's first line: `kind` is one of + (status), - (error), : (integer), $ (bulk; its payload follows)."""

    kind: str
    text: str

    def integer(self) -> int:
        """The number of a : or $ line (-1: no such value). Raises ProtocolError when it is not one."""
        try:
            return int(self.text)
        except ValueError:
            raise ProtocolError(f"not a number in a {self.kind} reply: {self.text[:80]!r}") from None


def command(*words: bytes) -> bytes:
    """A whole command as an array of bulk strings."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def command_head(*words: bytes, last_bytes: int) -> bytes:
    """A command up to its last word of `last_bytes` bytes: that word and CRLF must follow, so it need not be copied."""
    given = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    return b"*%d\r\n%b$%d\r\n" % (len(words) + 1, given, last_bytes)


class ReplyReader:
    """Reads replies from a byte stream, however it is split; a payload goes straight into the caller's memory.

    `receive_into(view)` blocks until it has stored 1 to len(view) bytes and returns their number, 0 at the end.
    Every method raises ConnectionError when the stream ends early, and lets errors of `receive_into` pass.
    """

    def __init__(self, receive_into: Callable[[memoryview], int]) -> None:
        self._receive_into = receive_into
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._start = 0
        self._end = 0

    def reply(self) -> Reply:
        """The next reply's first line. Raises ProtocolError for a kind that none of our commands asks for."""
        line = self._line()
        if line[:1] not in (b"+", b"-", b":", b"$"):
            raise ProtocolError(f"not a RESP2 reply: {line[:80]!r}")
        return Reply(chr(line[0]), line[1:].decode("utf-8", "replace"))

    def payload_into(self, view: memoryview) -> None:
        """Fill `view` (one byte an item) with a payload of exactly its size, and pass the CRLF after it."""
        taken = min(len(view), self._end - self._start)
        view[:taken] = self._buffer[self._start : self._start + taken]
        self._start += taken
        while taken < len(view):
            taken += self._received(view[taken:])
        if self._line() != b"":
            raise ProtocolError("a payload is longer than its header said")

    def skip_payload(self, size_bytes: int) -> None:
        """Pass a payload of `size_bytes` and the CRLF after it."""
        scratch = memoryview(bytearray(min(size_bytes, 1 << 16)))
        left = size_bytes - min(size_bytes, self._end - self._start)
        self._start += size_bytes - left
        while left:
            left -= self._received(scratch[:left])
        if self._line() != b"":
            raise ProtocolError("a payload is longer than its header said")

    def _line(self) -> bytes:
        while (at := bytes(self._buffer[self._start : self._end]).find(CRLF)) < 0:
            self._make_room()
            self._end += self._received(self._buffer[self._end :])
        line = bytes(self._buffer[self._start : self._start + at])
        self._start += at + len(CRLF)
        return line

    def _make_room(self) -> None:
        kept = self._end - self._start
        if kept == BUFFER_BYTES:
            raise ProtocolError(f"a reply line is longer than {BUFFER_BYTES} bytes")
        self._buffer[:kept] = self._buffer[self._start : self._end]
        self._start, self._end = 0, kept

    def _received(self, view: memoryview) -> int:
        count = self._receive_into(view)
        if count == 0:
            raise ConnectionError("the server closed the connection")
        return count
