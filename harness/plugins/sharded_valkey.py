"""A Valkey client for LMCache's `native_plugin` L2 adapter that spreads keys over N instances.

    --l2-adapter '{"type": "native_plugin",
                   "module_path": "harness.plugins.sharded_valkey", "class_name": "ShardedValkey",
                   "adapter_params": {"endpoints": ["127.0.0.1:7101", "127.0.0.1:7102"], "placement": "chunk"}}'

With one endpoint it is an ordinary client, so that arms with one and with N instances differ in the instances alone.
The interface is that of lmcache 0.5.5, v1/distributed/l2_adapters/native_connector_l2_adapter.py. Linux only (eventfd).
"""

import functools
import os
import ssl
import threading
import time
from collections.abc import Mapping, Sequence

from harness.plugins.address import entry_from, parse_address
from harness.plugins.batch import Batch, Share, dealt
from harness.plugins.connection import Connection, Operation, Request
from harness.plugins.instance import Instance
from harness.plugins.log import logger, show_in_lmcache_log
from harness.plugins.outage import Outage
from harness.plugins.placement import PLACEMENTS, Placement, home_over
from harness.plugins.statistics import Statistics

Buffer = bytes | bytearray | memoryview
Completion = tuple[int, bool, str, list[bool]]

_JOIN_TIMEOUT_S = 5.0


class ShardedValkey:
    """Batches of GET, SET, EXISTS and DEL over `endpoints`, each with its own worker threads.

    An endpoint is `host:port`, `valkeys://host:port` (TLS; `ca_file` to trust) or `unix:///path`. A username and a
    password are taken from the environment variables that `username_env` and `password_env` name. `key_prefix` keeps
    the keys apart from those of others on the same instances; it changes no key's place.

    Every submitted batch completes exactly once, within about `deadline_s` of its submission: what has not been
    answered by then, or lives on an instance that cannot be reached or is silent for `silence_s`, is False in the
    batch's list (a miss), never an exception. A GET of a value whose size is not that of its memory is a miss too.
    Values are sent from and received into the caller's memory, which must stay valid until the batch completes. Any
    thread may call any method.

    Raises ValueError for endpoints that are none, named twice or not to be read, an unknown `placement`, workers < 1,
    deadline <= 0 or a variable that is not set; OSError for certificates that cannot be read.
    """

    def __init__(  # noqa: PLR0913 - LMCache gives them by name, from its adapter_params
        self,
        endpoints: list[str],
        placement: Placement = "chunk",
        workers_per_instance: int = 2,
        deadline_s: float = 10.0,
        *,
        silence_s: float = 10.0,
        username_env: str | None = None,
        password_env: str | None = None,
        ca_file: str | None = None,
        key_prefix: str = "",
    ) -> None:
        if not endpoints:
            raise ValueError("endpoints is empty: name at least one host:port")
        if placement not in PLACEMENTS:
            raise ValueError(f"placement {placement!r} is not one of {', '.join(PLACEMENTS)}")
        if workers_per_instance < 1 or min(deadline_s, silence_s) <= 0:
            given = f"{workers_per_instance}, {deadline_s}, {silence_s}"
            raise ValueError(f"need workers_per_instance >= 1, deadline_s > 0 and silence_s > 0: {given}")
        addresses = [parse_address(endpoint) for endpoint in endpoints]
        names = [address.name for address in addresses]
        if len(set(names)) < len(names):
            raise ValueError(f"endpoints names {max(names, key=names.count)!r} twice")
        tls = ssl.create_default_context(cafile=ca_file) if any(address.tls for address in addresses) else None
        entry = entry_from(username_env, password_env, tls)
        show_in_lmcache_log()
        self._names = names
        self._prefix = f"{key_prefix}@" if key_prefix else ""
        self._home = home_over(names, placement)
        self._deadline_s = deadline_s
        self._lock = threading.Lock()
        self._closed = False
        self._next_id = 1
        self._open: dict[int, Batch] = {}
        self._completed: list[Completion] = []
        values, lookups = [], []
        for address in addresses:
            outage = Outage(address.name)
            connect = functools.partial(Connection, address, entry, silence_s)
            values.append(Instance(connect, outage, workers_per_instance, self._share_finished))
            # Lookups have a connection of their own: behind megabytes of stores they would hold up a prefill.
            lookups.append(Instance(connect, outage, 1, self._share_finished))
        self._values, self._lookups = values, lookups
        self._event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        for instance in (*self._values, *self._lookups):
            instance.start()

    def event_fd(self) -> int:
        """A descriptor that is readable while completions wait to be drained; closed by `close`."""
        return self._event_fd

    def submit_batch_get(self, keys: Sequence[str], buffers: Sequence[memoryview]) -> int:
        """Fill each buffer with its key's value; True where it is there and has the buffer's size. The future's id."""
        return self._submit(Operation.GET, keys, _memory_of(keys, buffers))

    def submit_batch_set(self, keys: Sequence[str], buffers: Sequence[Buffer]) -> int:
        """Store each buffer under its key; True where stored. The future's id."""
        return self._submit(Operation.SET, keys, _memory_of(keys, buffers))

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        """Whether each key exists. The future's id."""
        return self._submit(Operation.EXISTS, keys, None)

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """Delete each key; True where there was one. The future's id."""
        return self._submit(Operation.DELETE, keys, None)

    def drain_completions(self) -> list[Completion]:
        """The batches completed since the last call: (future id, ok, error, result of each key); Batch.completion."""
        with self._lock:
            if self._completed and not self._closed:
                os.eventfd_read(self._event_fd)
            drained, self._completed = self._completed, []
            return drained

    def statistics(self) -> Mapping[str, Statistics]:
        """What each instance has done so far, by the instance's name (its endpoint without the scheme)."""
        return {
            name: values.statistics() + lookups.statistics()
            for name, values, lookups in zip(self._names, self._values, self._lookups, strict=True)
        }

    def close(self) -> None:
        """Complete every open batch (unanswered keys are False), end the threads, close the descriptor; repeatable.

        Interrupts running transfers, so it takes milliseconds; it waits at most 5 s for any thread.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            os.close(self._event_fd)
        for instance in (*self._values, *self._lookups):
            instance.close()
        for instance in (*self._values, *self._lookups):
            instance.join(_JOIN_TIMEOUT_S)
        with self._lock:
            for batch in list(self._open.values()):
                self._complete(batch)
        for name, statistics in self.statistics().items():
            logger.info("Valkey %s: %s", name, statistics)

    def _submit(self, operation: Operation, keys: Sequence[str], values: Sequence[memoryview] | None) -> int:
        with self._lock:
            batch = Batch(self._next_id, operation, [False] * len(keys), time.monotonic() + self._deadline_s)
            self._next_id += 1
            self._open[batch.future_id] = batch
            shares = [] if self._closed else self._shares_of(batch, keys, values)
            batch.shares_left = len(shares)
            for instance, share in shares:
                instance.submit(share)
            if not shares:
                self._complete(batch)
            return batch.future_id

    def _shares_of(
        self, batch: Batch, keys: Sequence[str], values: Sequence[memoryview] | None
    ) -> list[tuple[Instance, Share]]:
        """The batch by instance; one that moves values is dealt to all workers of an instance."""
        instances = self._lookups if values is None else self._values
        homes: list[list[int]] = [[] for _ in instances]
        for position, key in enumerate(keys):
            homes[self._home(key)].append(position)
        shares = []
        for instance, positions in zip(instances, homes, strict=True):
            for hand in dealt(positions, instance.workers):
                requests = [
                    Request(batch.operation, f"{self._prefix}{keys[i]}".encode(), None if values is None else values[i])
                    for i in hand
                ]
                shares.append((instance, Share(batch, hand, requests)))
        return shares

    def _share_finished(self, share: Share) -> None:
        with self._lock:
            share.batch.shares_left -= 1
            if share.batch.shares_left == 0:
                self._complete(share.batch)

    def _complete(self, batch: Batch) -> None:
        """Called with the lock held. A batch that is no longer open was completed by `close`."""
        if self._open.pop(batch.future_id, None) is None:
            return
        self._completed.append(batch.completion())
        if not self._closed:
            os.eventfd_write(self._event_fd, 1)


def _memory_of(keys: Sequence[str], buffers: Sequence[Buffer]) -> list[memoryview]:
    """The buffers one byte an item (LMCache's are ctypes arrays, whose format `<B` cannot be assigned to)."""
    if len(keys) != len(buffers):
        raise ValueError(f"{len(keys)} keys, but {len(buffers)} buffers")
    return [memoryview(buffer).cast("B") for buffer in buffers]
