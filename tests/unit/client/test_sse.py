"""The event decoder."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.client.sse import Event, decode_events

LINE_ENDS = (b"\n", b"\r", b"\r\n")
stream_bytes = st.lists(
    st.sampled_from(
        [b"data:", b"data", b" ", b":", b"\n", b"\r", b"\r\n", b"\n\n", b"x", b"id: 1", b"\xef\xbb\xbf", b"[DONE]"]
    )
).map(b"".join)


def _split(data: bytes, cuts: list[int]) -> list[tuple[int, bytes]]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [(start, data[start:end]) for start, end in itertools.pairwise(edges)]


def _one_byte_each(data: bytes) -> list[tuple[int, bytes]]:
    return [(position, data[position : position + 1]) for position in range(len(data))]


@settings(deadline=None)
@given(stream_bytes, st.lists(st.integers(0, 10_000), max_size=8))
def test_events_do_not_depend_on_the_split(data: bytes, cuts: list[int]) -> None:
    """Any split of the bytes gives the same events, each timed by the chunk that has its last byte."""
    chunks = _split(data, cuts)
    exact = decode_events(_one_byte_each(data))

    def chunk_of(position: int) -> int:
        return next(t_ns for t_ns, part in chunks if t_ns <= position < t_ns + len(part))

    assert decode_events(chunks) == [Event(chunk_of(event.t_ns), event.data) for event in exact]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.binary(max_size=8).map(lambda b: b.translate(None, b"\r\n")), min_size=1, max_size=3)),
    st.sampled_from(LINE_ENDS),
)
def test_what_was_encoded_is_decoded(events: list[list[bytes]], end: bytes) -> None:
    """Data lines written with any of the three line ends come back joined by LF."""
    encoded = b"".join(b"".join(b"data: " + line + end for line in lines) + end for lines in events)
    assert [event.data for event in decode_events([(0, encoded)])] == [b"\n".join(lines) for lines in events]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", []),
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data\n\n", [b""]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": comment\ndata: a\n: another\n\n", [b"a"]),
        (b": ping\n\n", []),
        (b"event: token\nid: 7\nretry: 3\ndata: a\n\n", [b"a"]),
        (b"database: a\n\n", []),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [b"a", b"b", b"c"]),
        (b"data: a\n\n\n\ndata: [DONE]\n\n", [b"a", b"[DONE]"]),
        (b"data: a\n\ndata: tail\n", [b"a"]),
        (b"data: a\n\ndata: tail", [b"a"]),
    ],
)
def test_rules_of_the_format(body: bytes, expected: list[bytes]) -> None:
    """Each rule of the event stream format, on its smallest example."""
    assert [event.data for event in decode_events([(0, body)])] == expected


def test_an_event_is_timed_by_its_last_byte() -> None:
    """An event whose blank line comes late is late; two events in one chunk share its time."""
    chunks = [(1, b"data: a\n"), (5, b"\ndata: b\n\ndata: c"), (6, b""), (9, b"\r\n\r"), (12, b"\n")]
    assert decode_events(chunks) == [Event(5, b"a"), Event(5, b"b"), Event(9, b"c")]
