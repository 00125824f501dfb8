"""LMCache's remote storage plugin against real Valkeys, with LMCache's own memory, keys and connector manager."""

import asyncio
import contextlib
import importlib.util
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import valkey

from tests.fakes.valkey_servers import ValkeyServer, running

torch: Any = pytest.importorskip("torch", reason="the live stack is not installed")
if importlib.util.find_spec("lmcache") is None:
    pytest.skip("the live stack is not installed", allow_module_level=True)

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]

SHAPE = (2, 2, 16, 1, 8)  # layers, K and V, tokens a chunk, heads, head size


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ValkeyServer]]:
    """Two empty Valkeys."""
    with running(2, tmp_path) as started:
        yield started


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread of its own, as LMCache's does."""
    one = asyncio.new_event_loop()
    thread = threading.Thread(target=one.run_forever)
    thread.start()
    yield one
    one.call_soon_threadsafe(one.stop)
    thread.join()
    one.close()


class Worker:
    """One rank's connector, made by LMCache from a configuration as its file would have it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, endpoints: list[str], rank: int = 0, **extra: object) -> None:
        from lmcache.v1.config import LMCacheEngineConfig  # noqa: PLC0415
        from lmcache.v1.metadata import LMCacheMetadata  # noqa: PLC0415
        from lmcache.v1.storage_backend.connector import CreateConnector  # noqa: PLC0415
        from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend  # noqa: PLC0415

        plugin = "remote_storage_plugin.kvreplay"
        config = LMCacheEngineConfig.from_dict(
            {
                "chunk_size": 16,
                "local_cpu": False,
                "max_local_cpu_size": 0.01,
                "save_unfull_chunk": False,
                "blocking_timeout_secs": 5,
                "remote_storage_plugins": ["kvreplay"],
                "extra_config": {
                    f"{plugin}.module_path": "harness.plugins.remote_connector",
                    f"{plugin}.class_name": "ShardedValkeyAdapter",
                    "kvreplay.endpoints": endpoints,
                    "save_chunk_meta": False,
                    **extra,
                },
            }
        )
        metadata = LMCacheMetadata("m", 2, 2, rank, rank, torch.bfloat16, SHAPE, chunk_size=16)
        self.loop, self.rank = loop, rank
        self.memory = LocalCPUBackend(config, metadata)
        self.connector = CreateConnector("plugin://kvreplay", loop, self.memory, config, metadata, "kvreplay")

    def key(self, number: int) -> Any:
        """LMCache's own key of chunk `number`."""
        from lmcache.utils import CacheEngineKey  # noqa: PLC0415

        return CacheEngineKey("m", 2, self.rank, number, torch.bfloat16)

    def chunk(self, number: int) -> Any:
        """A chunk of this connector's memory, full of `number`."""
        one = self.memory.allocate(self.connector._connector.meta_shapes, self.connector._connector.meta_dtypes)
        one.tensor.fill_(number)
        return one

    def run(self, work: Any) -> Any:
        """The result of a coroutine on LMCache's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def store(self, numbers: range) -> None:
        """Put these chunks."""
        self.run(self.connector.batched_put([self.key(n) for n in numbers], [self.chunk(n) for n in numbers]))

    def chunks_in_use(self) -> int:
        """How many chunks of LMCache's memory somebody holds."""
        return int(self.memory.memory_allocator.pin_allocator.num_active_allocations)

    def until_in_use(self, chunks: int) -> None:
        """Wait until so many are."""
        for _ in range(600):
            if self.chunks_in_use() == chunks:
                return
            time.sleep(0.05)
        raise AssertionError(f"{self.chunks_in_use()} chunks are in use, {chunks} should be")

    def close(self) -> None:
        """End the connector, and give LMCache's memory back."""
        self.run(self.connector.close())
        self.memory.memory_allocator.close()


@pytest.fixture
def worker(loop: asyncio.AbstractEventLoop, servers: list[ValkeyServer]) -> Iterator[Worker]:
    """A rank whose chunks are spread over both."""
    one = Worker(loop, [server.endpoint for server in servers])
    yield one
    one.close()


def test_chunks_come_back_as_they_were(worker: Worker, servers: list[ValkeyServer]) -> None:
    """Stored over both instances, found as a prefix, loaded byte for byte; a miss is None and ends the prefix."""
    worker.store(range(20))
    assert all(server.key_count() for server in servers)
    keys = [worker.key(n) for n in (3, 4, 99, 5)]
    assert worker.connector.batched_contains(keys) == 2
    assert worker.run(worker.connector.batched_async_contains("lookup", keys)) == 2
    assert (worker.connector.exists_sync(keys[0]), worker.run(worker.connector.exists(keys[2]))) == (True, False)
    loaded = worker.run(worker.connector.batched_get(keys))
    assert [None if one is None else int(one.tensor.flatten()[-1]) for one in loaded] == [3, 4, None, 5]
    leading = worker.run(worker.connector.batched_get_non_blocking("lookup", keys))
    assert [int(one.tensor.flatten()[0]) for one in leading] == [3, 4]
    assert worker.connector.getWrappedConnector().remove_sync(keys[0])
    assert not worker.connector.exists_sync(keys[0])


def test_memory_of_misses_is_given_back(worker: Worker) -> None:
    """What was allocated for chunks that are not there is free again."""
    keys = [worker.key(n) for n in range(8)]
    worker.run(worker.connector.batched_get(keys))
    worker.run(worker.connector.batched_get_non_blocking("lookup", keys))
    assert worker.chunks_in_use() == 0
    worker.store(range(2, 8))
    held = worker.chunks_in_use()
    loaded = worker.run(worker.connector.batched_get(keys))
    assert worker.chunks_in_use() - held == 6 == sum(one is not None for one in loaded)
    worker.run(worker.connector.batched_get_non_blocking("lookup", keys))
    assert worker.chunks_in_use() - held == 6


def test_memory_stays_until_an_abandoned_transfer_has_ended(worker: Worker, servers: list[ValkeyServer]) -> None:
    """LMCache no longer waits; the instance may still answer into that memory, so nobody else gets it before."""
    worker.store(range(4))
    held = worker.chunks_in_use()
    for server in servers:
        server.freeze()
    keys = [worker.key(n) for n in range(4)]
    getting = asyncio.run_coroutine_threadsafe(worker.connector.batched_get(keys), worker.loop)
    worker.until_in_use(held + 4)
    getting.cancel()
    worker.run(asyncio.sleep(0.2))
    assert worker.chunks_in_use() == held + 4
    for server in servers:
        server.thaw()
    worker.until_in_use(held)


def test_too_little_memory_is_a_miss_of_the_rest(worker: Worker) -> None:
    """More chunks than fit: what has memory is loaded, the others are None, and nothing waits for memory."""
    worker.store(range(8))
    many = 20_000  # of a kilobyte each; LMCache has ten million bytes
    loaded = worker.run(worker.connector.batched_get([worker.key(n % 8) for n in range(many)]))
    found = [one is not None for one in loaded]
    assert len(loaded) == many
    assert 0 < sum(found) < many
    assert found == sorted(found, reverse=True)


def test_each_rank_has_its_instance(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """`{rank}` in the endpoint, the same text for all: rank 0's chunks are on instance 0, rank 1's on instance 1."""
    with contextlib.ExitStack() as exits:
        for rank in range(2):
            server = ValkeyServer(tmp_path, "--unixsocket", f"{tmp_path}/valkey-{rank}")
            exits.callback(server.kill)
            server.start()
        for rank in range(2):
            worker = Worker(loop, [f"unix://{tmp_path}/valkey-{{rank}}"], rank)
            worker.store(range(6))
            worker.close()
        for rank in range(2):
            with valkey.Valkey(unix_socket_path=f"{tmp_path}/valkey-{rank}") as instance:
                ranks = [key.split(b"@")[2] for key in instance.keys()]  # noqa: SIM118 - a client, not a dict
            assert ranks == [str(rank).encode()] * 6


def test_wrong_settings_are_named() -> None:
    """An unknown setting, and no endpoint, are errors; `{rank}` becomes the rank."""
    from harness.plugins.remote_connector import settings_of  # noqa: PLC0415

    template = {"kvreplay.endpoints": ["valkey-{rank}:6379"], "other": 1}
    assert settings_of(template, 3) == {"endpoints": ["valkey-3:6379"]}
    with pytest.raises(ValueError, match=r"kvreplay\.endpoint is not one of"):
        settings_of({"kvreplay.endpoint": ["a:1"]}, 0)
    for endpoints in ([], None, "a:1"):
        with pytest.raises(ValueError, match="list of at least one address"):
            settings_of({"kvreplay.endpoints": endpoints}, 0)


def test_unfull_chunks_are_refused() -> None:
    """A value of another size than a chunk's could not be told from a torn one."""
    from lmcache.v1.metadata import LMCacheMetadata  # noqa: PLC0415

    from harness.plugins.remote_connector import ShardedValkeyConnector  # noqa: PLC0415

    metadata = LMCacheMetadata("m", 1, 1, 0, 0, torch.bfloat16, SHAPE, chunk_size=16)
    config = SimpleNamespace(extra_config=None, use_layerwise=False, save_unfull_chunk=True)
    with pytest.raises(ValueError, match="save_unfull_chunk"):
        ShardedValkeyConnector(None, config, metadata, None)  # type: ignore[arg-type]
