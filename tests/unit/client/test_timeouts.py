"""Which limit runs."""

import pytest

from harness.client import Exchange, Timeouts

LIMITS = Timeouts(connect_s=1, first_byte_s=5, between_bytes_s=2, total_s=20)
SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Exchange(), ("connect_s", 101)),
        (Exchange(sent_ns=103 * SECOND_NS), ("first_byte_s", 108)),
        (Exchange(sent_ns=103 * SECOND_NS, headers_ns=104 * SECOND_NS, status=200), ("first_byte_s", 108)),
        (Exchange(sent_ns=103 * SECOND_NS, chunks=[(105 * SECOND_NS, b"x")]), ("between_bytes_s", 107)),
        (Exchange(sent_ns=103 * SECOND_NS, chunks=[(119 * SECOND_NS, b"x")]), ("total_s", 120)),
    ],
)
def test_the_limit_that_ends_first(seen: Exchange, expected: tuple[str, int]) -> None:
    """Each step has its own limit, counted from the step before; the total ends them all."""
    name, ends_s = expected
    assert LIMITS.next_limit(100 * SECOND_NS, seen) == (name, ends_s * SECOND_NS)
