"""Batches as futures, against real Valkey servers."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest

from harness.plugins.future_client import FutureClient, Results
from harness.plugins.sharded_valkey import ShardedValkey
from tests.fakes.valkey_servers import ValkeyServer, running

pytestmark = pytest.mark.integration

VALUES = {f"key-{number}": random.Random(number).randbytes(5000) for number in range(40)}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ValkeyServer]]:
    """Two empty Valkeys."""
    with running(2, tmp_path) as started:
        yield started


@pytest.fixture
def client(servers: list[ValkeyServer]) -> Iterator[FutureClient]:
    """A client of both."""
    one = FutureClient(ShardedValkey([server.endpoint for server in servers]))
    yield one
    one.close()


def test_every_operation_tells_its_keys(client: FutureClient) -> None:
    """Stored, found, loaded and deleted, each with a result of its own."""
    assert client.put(list(VALUES), list(VALUES.values())).result(60) == [True] * 40
    assert client.exists([*VALUES, "other"]).result(60) == [True] * 40 + [False]
    memory = [bytearray(5000) for _ in VALUES]
    assert all(client.get(list(VALUES), [memoryview(one) for one in memory]).result(60))
    assert memory == list(VALUES.values())
    assert client.delete(["key-0", "other"]).result(60) == [True, False]


def test_no_completion_is_lost(client: FutureClient) -> None:
    """Many threads that submit as fast as they can: every future is resolved (stock LMCache's client lost some)."""
    client.put(list(VALUES), list(VALUES.values())).result(60)
    futures: list[Results] = []

    def submit(seed: int) -> None:
        draw = random.Random(seed)
        futures.extend(client.exists(draw.sample(list(VALUES), draw.randint(0, 5))) for _ in range(150))

    threads = [threading.Thread(target=submit, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done, left = wait(futures, timeout=120)
    assert (len(done), len(left)) == (900, 0)
    assert all(all(future.result()) for future in done)


def test_close_resolves_what_is_open(servers: list[ValkeyServer]) -> None:
    """Futures of a frozen instance, and of one that is closed, are resolved as misses; close may be repeated."""
    client = FutureClient(ShardedValkey([server.endpoint for server in servers], deadline_s=600, silence_s=600))
    servers[0].freeze()
    servers[1].freeze()
    try:
        open_ones = [client.exists(list(VALUES)) for _ in range(5)]
        client.close()
        client.close()
        assert [future.result(0) for future in open_ones] == [[False] * 40] * 5
        assert client.exists(["a"]).result(0) == [False]
    finally:
        servers[0].thaw()
        servers[1].thaw()
