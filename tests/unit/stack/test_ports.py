"""TCP ports on this machine."""

import asyncio
import contextlib
import socket

from harness.config import Arm, Engine
from harness.stack import Ports, ports_for
from harness.stack.ports import free_ports, free_row, listens


def test_a_port_listens_while_somebody_accepts_on_it() -> None:
    """A listening socket is seen, one that was closed is not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert asyncio.run(listens(port))
    assert not asyncio.run(listens(port))


def test_a_port_is_given_once() -> None:
    """What one stack was given and does not listen on yet is not given to the next."""
    given = [port for _ in range(40) for port in free_ports(25)]
    assert len(set(given)) == len(given)


def test_neighbours_are_free() -> None:
    """All ports of a row can be taken at once."""
    first = free_row(5)
    with contextlib.ExitStack() as held:
        for port in range(first, first + 5):
            held.enter_context(socket.socket()).bind(("127.0.0.1", port))


def test_every_rank_has_a_port_for_its_page() -> None:
    """Inside an engine of four ranks: from its lmcache_http on, four that nobody else of the arm has."""
    engine = Engine(backend="vllm", model="m", tensor_parallel=4, replicas=2)
    arm = Arm.model_validate({"name": "a", "lmcache": {"mode": "inprocess", "l1": "1GiB"}})
    free = ports_for(arm, engine)
    ports = Ports.of(arm, 2, free)
    pages = [port for one in ports.engines for port in range(one.lmcache_http, one.lmcache_http + 4)]
    others = [port for one in ports.engines for port in (one.vllm, one.lmcache_zmq)]
    assert len({*pages, *others}) == 12
