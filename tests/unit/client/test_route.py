"""Which server a request goes to."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.client import Route
from harness.client.route import PREFIX_TOKENS, server_of
from tests.fakes.passes import planned

tokens = st.lists(st.integers(0, 99), min_size=1, max_size=8)


@given(st.sampled_from(Route), st.integers(0, 10**6), st.text(max_size=5), st.integers(1, 9))
def test_a_route_names_a_server_and_always_the_same(route: Route, seq: int, session: str, servers: int) -> None:
    """An index of a server, and a function of the request alone."""
    request = replace(planned(seq, 0), session=session)
    chosen = server_of(request, route, servers)
    assert 0 <= chosen < servers
    assert chosen == server_of(replace(request, due_ns=7), route, servers)


@given(tokens, tokens, tokens, st.integers(2, 9))
def test_prompts_that_begin_alike_go_to_one_server(
    head: list[int], one: list[int], two: list[int], servers: int
) -> None:
    """Under `prefix` only the first PREFIX_TOKENS tokens count."""
    start = (head * PREFIX_TOKENS)[:PREFIX_TOKENS]
    requests = [
        replace(planned(seq, 0), tokens=np.array([*start, *tail], dtype=np.uint32))
        for seq, tail in enumerate((one, two))
    ]
    assert len({server_of(request, Route.PREFIX, servers) for request in requests}) == 1


def test_requests_without_a_session_are_spread() -> None:
    """No session is not one session: else all of them would meet at one server."""
    requests = [replace(planned(seq, 0), session="") for seq in range(50)]
    assert len({server_of(request, Route.SESSION, 2) for request in requests}) == 2
