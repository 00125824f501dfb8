"""RESP2 commands and replies."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plugins.resp import CRLF, ProtocolError, ReplyReader, command, command_head

TEXTS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=60)
PAYLOADS = st.binary(max_size=9000)
SPLITS = st.lists(st.integers(1, 5000), min_size=1, max_size=50)


def split_stream(stream: bytes, sizes: list[int]) -> Callable[[memoryview], int]:
    """A receive_into that gives the stream in pieces of at most `sizes`, in turn, then its end."""
    position = turn = 0

    def receive_into(view: memoryview) -> int:
        nonlocal position, turn
        piece = stream[position : position + min(len(view), sizes[turn % len(sizes)])]
        view[: len(piece)] = piece
        position += len(piece)
        turn += 1
        return len(piece)

    return receive_into


def bulk(payload: bytes) -> bytes:
    """A bulk string as the server writes it."""
    return b"$%d\r\n%b\r\n" % (len(payload), payload)


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=5))
def test_a_command_is_read_back_as_its_words(words: list[bytes]) -> None:
    """A command is an array of bulk strings that hold exactly its words."""
    head, _, rest = command(*words).partition(CRLF)
    assert (head, rest) == (b"*%d" % len(words), b"".join(bulk(word) for word in words))


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=3), PAYLOADS)
def test_a_value_need_not_be_copied(words: list[bytes], value: bytes) -> None:
    """The head, the value and CRLF are together what the whole command would be."""
    assert command_head(*words, last_bytes=len(value)) + value + CRLF == command(*words, value)


@given(st.lists(st.tuples(st.sampled_from("+-:$"), TEXTS), max_size=10), SPLITS)
def test_lines_do_not_depend_on_how_they_arrive(lines: list[tuple[str, str]], sizes: list[int]) -> None:
    """Reply lines come out as they were sent, however the stream is split."""
    stream = b"".join(f"{kind}{text}\r\n".encode() for kind, text in lines)
    reader = ReplyReader(split_stream(stream, sizes))
    assert [tuple(reader.reply()) for _ in lines] == lines


@given(st.lists(PAYLOADS, min_size=1, max_size=6), SPLITS, st.data())
def test_payloads_do_not_depend_on_how_they_arrive(
    payloads: list[bytes], sizes: list[int], data: st.DataObject
) -> None:
    """Payloads land whole in the caller's memory, and one that is passed over leaves the next ones in step."""
    reader = ReplyReader(split_stream(b"".join(bulk(payload) for payload in payloads), sizes))
    for payload in payloads:
        assert reader.reply().integer() == len(payload)
        if data.draw(st.booleans()):
            reader.skip_payload(len(payload))
        else:
            memory = bytearray(len(payload))
            reader.payload_into(memoryview(memory))
            assert memory == payload


@given(PAYLOADS, SPLITS, st.data())
def test_a_cut_stream_is_a_connection_error(payload: bytes, sizes: list[int], data: st.DataObject) -> None:
    """A stream that ends anywhere inside a reply is never taken for a whole one."""
    whole = bulk(payload)
    cut = data.draw(st.integers(0, len(whole) - 1))
    reader = ReplyReader(split_stream(whole[:cut], sizes))
    with pytest.raises(ConnectionError):
        read_bulk(reader, len(payload))


@pytest.mark.parametrize(
    "stream",
    [b"*1\r\n", b"hello\r\n", b"\r\n", b"$x\r\n", b"$3\r\nabcd\r\n", b"+" + b"x" * 5000],
    ids=["array", "no kind", "empty", "no number", "too long a payload", "too long a line"],
)
def test_other_bytes_are_a_protocol_error(stream: bytes) -> None:
    """What RESP2 does not allow here is refused, so that the connection is dropped."""
    with pytest.raises(ProtocolError):
        read_bulk(ReplyReader(split_stream(stream, [7])), 3)


def read_bulk(reader: ReplyReader, size_bytes: int) -> None:
    """Read one bulk reply into memory of `size_bytes`."""
    reader.reply().integer()
    reader.payload_into(memoryview(bytearray(size_bytes)))
