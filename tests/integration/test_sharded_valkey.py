"""The sharded client against real Valkey servers."""

import ctypes
import hashlib
import importlib.util
import json
import logging
import os
import random
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.plugins.placement import PLACEMENTS, Placement, home_over
from harness.plugins.sharded_valkey import Completion, ShardedValkey
from tests.fakes.tls import self_signed, server_context, tls_front
from tests.fakes.valkey_servers import ValkeyServer, running

pytestmark = pytest.mark.integration

SIZES = [1, 13, 4095, 4096, 4097, 70_000, 1 << 20]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ValkeyServer]]:
    """Three empty Valkeys."""
    with running(3, tmp_path) as started:
        yield started


class Caller:
    """Submits batches and waits for them on the event descriptor, as LMCache's adapter does."""

    def __init__(
        self,
        servers: list[ValkeyServer],
        placement: Placement = "chunk",
        endpoints: list[str] | None = None,
        **more: Any,
    ) -> None:
        self.client = ShardedValkey(endpoints or [server.endpoint for server in servers], placement, **more)
        self._completed: dict[int, Completion] = {}

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def result(self, future_id: int) -> Completion:
        """The completion of a future; a second completion of any future fails."""
        poller = select.poll()
        poller.register(self.client.event_fd(), select.POLLIN)
        while future_id not in self._completed:
            assert poller.poll(30_000), "no completion"
            for completion in self.client.drain_completions():
                assert completion[0] not in self._completed
                self._completed[completion[0]] = completion
        return self._completed[future_id]

    def put(self, values: dict[str, bytes]) -> Completion:
        """Store values and wait."""
        return self.result(self.client.submit_batch_set(list(values), [lmcache_memory(v) for v in values.values()]))

    def got(self, keys: list[str], sizes: list[int]) -> list[bytes | None]:
        """Load values into memory of the given sizes and wait; None for a miss."""
        memory = [lmcache_memory(bytes(size)) for size in sizes]
        _, ok, _, hits = self.result(self.client.submit_batch_get(keys, memory))
        assert ok
        return [bytes(view) if hit else None for view, hit in zip(memory, hits, strict=True)]

    def exist(self, keys: list[str]) -> list[bool]:
        """Look keys up and wait."""
        _, ok, _, results = self.result(self.client.submit_batch_exists(keys))
        assert ok
        return results


def lmcache_memory(content: bytes) -> memoryview:
    """Memory as LMCache's memory objects give it: a view of a ctypes array."""
    return memoryview((ctypes.c_ubyte * len(content)).from_buffer_copy(content))


def key(chunk: int, rank: int = 0) -> str:
    """An object key of a two-rank world, its hash drawn from the chunk's number."""
    return f"model@{2 << 24 | rank << 16 | 2 << 8 | rank:08x}@0@{hashlib.sha256(b'%d' % chunk).hexdigest()}"


def chunks(count: int, size: int = 2000) -> dict[str, bytes]:
    """Keys with random values of one size."""
    return {key(i): random.Random(i).randbytes(size) for i in range(count)}


def test_values_come_back_as_they_were_stored(servers: list[ValkeyServer]) -> None:
    """Every size, one byte to 1 MiB, several in a pipeline, is read back equal; one instance behaves as three."""
    values = {key(i): random.Random(i).randbytes(size) for i, size in enumerate(SIZES * 3)}
    for used in (servers, servers[:1]):
        with Caller(used) as caller:
            assert caller.put(values)[1]
            assert caller.exist(list(values)) == [True] * len(values)
            assert caller.got(list(values), [len(value) for value in values.values()]) == list(values.values())


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_keys_live_where_placement_says(servers: list[ValkeyServer], placement: Placement) -> None:
    """Each instance holds exactly the keys that placement gives it."""
    values = {key(i, rank): b"value" for i in range(40) for rank in (0, 1)}
    with Caller(servers, placement) as caller:
        assert caller.put(values)[1]
    homes = [home_over([server.endpoint for server in servers], placement)(one) for one in values]
    assert [server.key_count() for server in servers] == [homes.count(i) for i in range(3)]


def test_a_miss_is_a_miss_of_its_key_alone(servers: list[ValkeyServer]) -> None:
    """Absent keys, and values of another size than asked for, are misses; their neighbours are whole."""
    values = chunks(40)
    wrong = set(list(values)[::5])
    asked = [*values, key(1000), key(1001)]
    sizes = [{True: 1999, False: 2000}[one in wrong] for one in asked]
    expected = [None if one in wrong else values.get(one) for one in asked]
    with Caller(servers) as caller:
        caller.put(values)
        assert caller.got(asked, sizes) == expected
        assert caller.got(asked, [size + 7000 for size in sizes]) == [None] * len(asked)
        assert caller.got(asked, sizes) == expected
        assert caller.exist(asked) == [True] * len(values) + [False, False]


def test_deleted_keys_are_gone(servers: list[ValkeyServer]) -> None:
    """A delete tells which keys there were, and leaves the others."""
    values = chunks(20)
    with Caller(servers) as caller:
        caller.put(values)
        gone = [*list(values)[::2], key(1000)]
        _, ok, _, deleted = caller.result(caller.client.submit_batch_delete(gone))
        assert (ok, deleted) == (True, [True] * 10 + [False])
        assert caller.exist(list(values)) == [False, True] * 10


def test_a_dead_instance_costs_its_own_chunks_and_comes_back(servers: list[ValkeyServer]) -> None:
    """With one of three killed, the other two thirds are read; once it runs again it is used again, on its own."""
    values = chunks(60)
    dead = [home_over(["a:1", "b:1", "c:1"], "chunk")(one) == 1 for one in values]
    sizes = [2000] * len(values)
    with Caller(servers) as caller:
        assert caller.put(values)[1]
        servers[1].kill()
        survivors = [None if lost else value for lost, value in zip(dead, values.values(), strict=True)]
        assert caller.got(list(values), sizes) == survivors
        assert caller.exist(list(values)) == [not lost for lost in dead]
        _, ok, error, stored = caller.put(values)
        assert (ok, stored) == (False, [not lost for lost in dead])
        assert servers[1].endpoint in error
        servers[1].start()
        assert_soon(lambda: caller.put(values)[1])
        assert caller.got(list(values), sizes) == list(values.values())


def test_a_hung_instance_is_found_by_its_silence(servers: list[ValkeyServer]) -> None:
    """With one of three frozen, a load ends long before its deadline with the others' chunks, and recovers later."""
    values = chunks(60)
    sizes = [2000] * len(values)
    with Caller(servers, deadline_s=600.0, silence_s=0.5) as caller:
        assert caller.put(values)[1]
        servers[1].freeze()
        try:
            home = home_over(["a:1", "b:1", "c:1"], "chunk")
            alive = [None if home(one) == 1 else value for one, value in values.items()]
            assert caller.got(list(values), sizes) == alive
            assert caller.got(list(values), sizes) == alive
        finally:
            servers[1].thaw()
        assert_soon(lambda: caller.got(list(values), sizes) == list(values.values()))


def test_an_outage_is_said_once(servers: list[ValkeyServer], capfd: pytest.CaptureFixture[str]) -> None:
    """LMCache's log gets one line when an instance is lost, however many batches it costs, and one when it is back."""
    values = chunks(12)
    logging.getLogger("harness.plugins").handlers.clear()  # stderr is another one in every test
    with Caller(servers[:1]) as caller:
        servers[0].kill()
        for _ in range(4):
            caller.exist(list(values))
            caller.put(values)
        servers[0].start()
        assert_soon(lambda: caller.put(values)[1])
        statistics = caller.client.statistics()[servers[0].endpoint]
    lines = capfd.readouterr().err.splitlines()
    assert sum("does not answer, its chunks are misses" in line for line in lines) == 1
    assert sum("answers again" in line for line in lines) == 1
    assert all(re.match(r"\[\d{4}-\d\d-\d\d [\d:]{8},\d{3}\] LMCache (WARNING|INFO): Valkey", line) for line in lines)
    assert statistics.stored >= 12, "the first put after its return may have found one worker still pausing"
    assert statistics.unanswered >= 4 * 2 * 12


def test_a_password_and_a_username_are_given(servers: list[ValkeyServer], monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of the environment open the door, alone or with a name; wrong ones cost misses that say why."""
    assert servers[0].ask("CONFIG", "SET", "requirepass", "hunter2") == "+OK"
    assert servers[1].ask("ACL", "SETUSER", "kv", "on", ">secret", "~*", "+@all") == "+OK"
    assert servers[1].ask("CONFIG", "SET", "requirepass", "hunter2") == "+OK"
    for name, value in (("PASSWORD", "hunter2"), ("USER", "kv"), ("SECRET", "secret")):
        monkeypatch.setenv(f"KVREPLAY_TEST_{name}", value)
    password, named = {"password_env": "KVREPLAY_TEST_PASSWORD"}, {"username_env": "KVREPLAY_TEST_USER"}
    for server, entry, opens in (
        (servers[0], password, True),
        (servers[1], {**named, "password_env": "KVREPLAY_TEST_SECRET"}, True),
        (servers[1], {**named, **password}, False),
        (servers[1], {}, False),
    ):
        with Caller([server], **entry) as caller:
            _, ok, error, _ = caller.put(chunks(4))
            assert ok is opens
            assert opens or "WRONGPASS" in error or "NOAUTH" in error


def test_a_unix_socket_is_an_instance(tmp_path: Path) -> None:
    """Values come back through a unix socket as through TCP."""
    path, values = tmp_path / "valkey.sock", chunks(20)
    server = ValkeyServer(tmp_path, "--unixsocket", str(path))
    server.start()
    try:
        with Caller([], endpoints=[f"unix://{path}"]) as caller:
            assert caller.put(values)[1]
            assert caller.got(list(values), [2000] * 20) == list(values.values())
        assert server.key_count() == 20
    finally:
        server.kill()


def test_tls_is_spoken_and_strangers_are_refused(servers: list[ValkeyServer], tmp_path: Path) -> None:
    """Values of every size come back through TLS; a certificate that nobody vouches for costs misses that say why."""
    certificate, key_file = self_signed(tmp_path)
    values = {key(i): random.Random(i).randbytes(size) for i, size in enumerate(SIZES * 2)}
    with tls_front(server_context(certificate, key_file), servers[0].port) as port:
        endpoints = [f"valkeys://127.0.0.1:{port}"]
        with Caller([], endpoints=endpoints, ca_file=str(certificate)) as caller:
            assert caller.put(values)[1]
            assert caller.got(list(values), [len(value) for value in values.values()]) == list(values.values())
        with Caller([], endpoints=endpoints) as caller:
            _, ok, error, _ = caller.put(values)
            assert not ok
            assert "certificate verify failed" in error


def test_a_restart_between_batches_is_not_noticed(servers: list[ValkeyServer]) -> None:
    """A connection that died while idle is replaced within the batch that finds out: no key is lost to it."""
    with Caller(servers[:1]) as caller:
        assert caller.put(chunks(8))[1]
        servers[0].kill()
        servers[0].start()
        assert caller.put(chunks(8))[3] == [True] * 8


def test_a_server_error_is_a_miss_and_keeps_step(servers: list[ValkeyServer]) -> None:
    """A value that the server refuses for want of memory is not stored, says why, and the connection goes on."""
    assert servers[0].ask("CONFIG", "SET", "maxmemory", "1") == "+OK"
    with Caller(servers[:1]) as caller:
        _, ok, error, stored = caller.put(chunks(5))
        assert (ok, stored) == (False, [False] * 5)
        assert "OOM" in error
        assert servers[0].ask("CONFIG", "SET", "maxmemory", "0") == "+OK"
        assert caller.put(chunks(5))[1]


def test_many_batches_at_once_all_complete(servers: list[ValkeyServer]) -> None:
    """Batches submitted from four threads complete once each, with the right bytes in the right memory."""
    values = chunks(30, size=20_000)
    with Caller(servers) as caller:
        caller.put(values)
        batches: list[tuple[int, list[str], list[memoryview]]] = []

        def submit(seed: int) -> None:
            draw = random.Random(seed)
            for _ in range(25):
                asked = draw.sample(list(values), draw.randint(1, 12))
                memory = [lmcache_memory(bytes(20_000)) for _ in asked]
                batches.append((caller.client.submit_batch_get(asked, memory), asked, memory))

        threads = [threading.Thread(target=submit, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({future for future, _, _ in batches}) == 100
        for future, asked, memory in batches:
            assert caller.result(future)[3] == [True] * len(asked)
            assert [bytes(view) for view in memory] == [values[one] for one in asked]


def test_close_during_transfers_completes_everything(servers: list[ValkeyServer]) -> None:
    """Closing with transfers under way completes every future once, and afterwards the memory stays as it is."""
    values = chunks(8, size=1 << 20)
    with Caller(servers) as caller:
        caller.put(values)
        memory = [bytearray(1 << 20) for _ in values]
        futures = [caller.client.submit_batch_get(list(values), [memoryview(one) for one in memory]) for _ in range(10)]
        caller.client.close()
        completed = [completion[0] for completion in caller.client.drain_completions()]
        assert sorted(completed) == futures
        before = [hashlib.sha256(one).digest() for one in memory]
        time.sleep(0.05)
        assert [hashlib.sha256(one).digest() for one in memory] == before


def test_memory_that_cannot_be_written_costs_its_batch_alone(servers: list[ValkeyServer]) -> None:
    """A load into read-only memory is a miss, and the workers live on."""
    values = chunks(4)
    with Caller(servers) as caller:
        caller.put(values)
        future = caller.client.submit_batch_get(list(values), [memoryview(bytes(2000)) for _ in values])
        assert caller.result(future)[3] == [False] * 4
        assert caller.got(list(values), [2000] * 4) == list(values.values())


def test_lmcache_takes_it_for_a_native_connector(servers: list[ValkeyServer]) -> None:
    """LMCache's own adapter, made from its JSON, drives the client: stored, found, loaded and deleted per key."""
    if importlib.util.find_spec("lmcache") is None:
        pytest.skip("LMCache is not installed")
    repository = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, repository / "tests/fakes/lmcache_adapter.py", *[server.endpoint for server in servers]],
        env={**os.environ, "PYTHONPATH": str(repository), "LMCACHE_TRACK_USAGE": "false"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "store_ok": True,
        "found_loaded_left": [[1, 1, 1, 0], [1, 1, 1, 0], [0, 1, 1, 0]],
        "bytes": [[1], [2], [3], [0]],
    }


def assert_soon(condition: Callable[[], bool]) -> None:
    """`condition` becomes true within a generous time."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
