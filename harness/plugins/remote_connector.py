"""The sharded Valkey client in LMCache's in-process mode: a remote storage plugin (lmcache 0.5.5, connector/).

    remote_storage_plugins: [kvreplay]
    extra_config:
      remote_storage_plugin.kvreplay.module_path: harness.plugins.remote_connector
      remote_storage_plugin.kvreplay.class_name: ShardedValkeyAdapter
      kvreplay.endpoints: ["valkey-{rank}:6379"]     # each rank its own; or several without {rank}, with
      kvreplay.placement: chunk                      # chunk | rank | consistent
      kvreplay.password_env: VALKEY_PASSWORD         # also username_env, ca_file, key_prefix, workers_per_instance

A model with MLA is by default written and read by rank 0 alone; for every rank to keep its own part, add
`save_only_first_rank: false`, `remote_enable_mla_worker_id_as0: false` and `lookup_server_worker_ids` with every rank.
"""

import asyncio
import builtins
from collections.abc import Sequence
from typing import Any

from lmcache.v1.storage_backend.connector import ConnectorAdapter
from lmcache.v1.storage_backend.connector.base_connector import RemoteConnector

from harness.plugins.future_client import FutureClient
from harness.plugins.log import logger
from harness.plugins.sharded_valkey import ShardedValkey

PLUGIN = "kvreplay"
_PREFIX = f"{PLUGIN}."
# LMCache waits for a load as long as it likes (blocking_timeout_secs), and not at all for a store: behind an overloaded
# link stores queue for long, and a deadline of ours would turn them into misses.
_DEADLINE_S = 300.0
_SETTINGS = ("endpoints", "placement", "workers_per_instance", "username_env", "password_env", "ca_file", "key_prefix")


class ShardedValkeyAdapter(ConnectorAdapter):  # type: ignore[misc] # lmcache is not there where types are checked
    """Makes the connector of one worker from LMCache's `extra_config`."""

    def __init__(self) -> None:
        super().__init__(f"plugin://{PLUGIN}")

    def create_connector(self, context: Any) -> "ShardedValkeyConnector":
        """The connector of the worker that `context` describes. Raises ValueError for settings that cannot be."""
        config, metadata = context.config, context.metadata
        settings = settings_of(config.extra_config or {}, metadata.worker_id)
        client = ShardedValkey(**settings, deadline_s=_DEADLINE_S)
        logger.info("rank %d keeps its chunks on %s", metadata.worker_id, ", ".join(settings["endpoints"]))
        return ShardedValkeyConnector(context.local_cpu_backend, config, metadata, FutureClient(client))


def settings_of(extra_config: dict[str, Any], rank: int) -> dict[str, Any]:
    """ShardedValkey's arguments out of LMCache's `extra_config`, `{rank}` in an endpoint replaced by this worker's.

    Raises ValueError for a setting that is not known, and where no endpoint is named.
    """
    given = {key.removeprefix(_PREFIX): value for key, value in extra_config.items() if key.startswith(_PREFIX)}
    unknown = sorted(given.keys() - set(_SETTINGS))
    if unknown:
        known = ", ".join(_PREFIX + name for name in _SETTINGS)
        raise ValueError(f"extra_config: {_PREFIX}{unknown[0]} is not one of {known}")
    endpoints = given.get("endpoints")
    if not isinstance(endpoints, list) or not endpoints:
        raise ValueError(f"extra_config: {_PREFIX}endpoints must be a list of at least one address")
    return {**given, "endpoints": [str(endpoint).replace("{rank}", str(rank)) for endpoint in endpoints]}


class ShardedValkeyConnector(RemoteConnector):  # type: ignore[misc] # lmcache is not there where types are checked
    """LMCache's remote backend over N Valkeys. A value is a chunk's bytes, whole: nothing else is stored or accepted.

    What is not answered in time or lives on a dead instance is a miss. Memory that a transfer may still write to is
    given back when the transfer has ended, also where LMCache no longer waits for it.
    """

    def __init__(self, memory: Any, config: Any, metadata: Any, client: FutureClient) -> None:
        super().__init__(config, metadata)
        if config.save_unfull_chunk:
            raise ValueError("save_unfull_chunk must be false: values of one size only are stored")
        self._memory = memory
        self._client = client

    async def exists(self, key: Any) -> bool:
        """Whether the key exists."""
        return bool(await self.batched_async_contains("", [key]))

    def exists_sync(self, key: Any) -> bool:
        """Whether the key exists; waits."""
        return bool(self.batched_contains([key]))

    async def get(self, key: Any) -> Any:
        """The chunk, or None."""
        return (await self.batched_get([key]))[0]

    async def put(self, key: Any, memory_obj: Any) -> None:
        """Store the chunk; what cannot be stored is a later miss. The caller gives the memory back."""
        await self.batched_put([key], [memory_obj])

    async def list(self) -> Sequence[str]:
        """Not offered: LMCache never asks, and N instances' keys are better asked of the instances."""
        raise NotImplementedError("ask each Valkey for its keys")

    async def close(self) -> None:
        """End every transfer and thread."""
        await asyncio.to_thread(self._client.close)

    def support_batched_get(self) -> bool:
        """Yes."""
        return True

    async def batched_get(self, keys: Sequence[Any]) -> Sequence[Any]:
        """Each key's chunk, or None."""
        chunks = self._room(len(keys))
        names = [key.to_string() for key in keys[: len(chunks)]]
        transfer = self._client.get(names, [chunk.byte_array for chunk in chunks])
        try:
            found = await asyncio.shield(asyncio.wrap_future(transfer))
        except asyncio.CancelledError:
            transfer.add_done_callback(lambda _: _give_back(chunks))
            raise
        _give_back([chunk for chunk, there in zip(chunks, found, strict=True) if not there])
        loaded = [chunk if there else None for chunk, there in zip(chunks, found, strict=True)]
        return loaded + [None] * (len(keys) - len(loaded))

    def support_batched_get_non_blocking(self) -> bool:
        """Yes."""
        return True

    async def batched_get_non_blocking(self, lookup_id: str, keys: Sequence[Any]) -> Sequence[Any]:
        """The chunks of the first keys, up to the first that is missing."""
        loaded = await self.batched_get(keys)
        hits = _leading([chunk is not None for chunk in loaded])
        _give_back([chunk for chunk in loaded[hits:] if chunk is not None])
        return loaded[:hits]

    def support_batched_put(self) -> bool:
        """Yes."""
        return True

    async def batched_put(self, keys: Sequence[Any], memory_objs: Sequence[Any]) -> None:
        """Store each chunk; what cannot be stored is a later miss. The caller gives the memory back."""
        transfer = self._client.put([key.to_string() for key in keys], [chunk.byte_array for chunk in memory_objs])
        await asyncio.shield(asyncio.wrap_future(transfer))

    def support_batched_contains(self) -> bool:
        """Yes."""
        return True

    def batched_contains(self, keys: Sequence[Any]) -> int:
        """How many keys exist, up to the first that does not; waits."""
        return _leading(self._client.exists([key.to_string() for key in keys]).result())

    def support_batched_async_contains(self) -> bool:
        """Yes."""
        return True

    async def batched_async_contains(self, lookup_id: str, keys: Sequence[Any], pin: bool = False) -> int:
        """How many keys exist, up to the first that does not."""
        lookup = self._client.exists([key.to_string() for key in keys])
        found = await asyncio.shield(asyncio.wrap_future(lookup))
        return _leading(found)

    def remove_sync(self, key: Any) -> bool:
        """Delete the key; whether it was there."""
        return self._client.delete([key.to_string()]).result()[0]

    def _room(self, count: int) -> Sequence[Any]:
        """Memory for so many chunks, or for as many as there is: to wait for more here would hold up all transfers."""
        chunks: builtins.list[Any] = []
        while len(chunks) < count:
            chunk = self._memory.allocate(self.meta_shapes, self.meta_dtypes, self.meta_fmt, busy_loop=False)
            if chunk is None:
                logger.warning("no memory for %d of %d chunks: they are misses", count - len(chunks), count)
                break
            chunks.append(chunk)
        return chunks


def _give_back(chunks: Sequence[Any]) -> None:
    for chunk in chunks:
        chunk.ref_count_down()


def _leading(found: Sequence[bool]) -> int:
    """How many of the first are True."""
    return next((position for position, there in enumerate(found) if not there), len(found))
