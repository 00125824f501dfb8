"""The sharded client for callers that wait: every batch is a future, resolved by one thread."""

import os
import select
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from harness.plugins.sharded_valkey import Buffer, ShardedValkey

Results = Future[list[bool]]


class FutureClient:
    """A ShardedValkey, which it owns, whose batches are futures of the result of each key.

    No completion is lost: a batch is submitted and written down under the lock that whoever resolves it must take, and
    `close` resolves all that is left. Futures never hold an exception. Any thread may call any method.
    """

    def __init__(self, client: ShardedValkey) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._open: dict[int, Results] = {}
        self._stop_fd = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._resolve_until_closed, name="valkey-futures", daemon=True)
        self._thread.start()

    def get(self, keys: Sequence[str], buffers: Sequence[memoryview]) -> Results:
        """Fill each buffer with its key's value; see ShardedValkey.submit_batch_get."""
        return self._submit(self._client.submit_batch_get, keys, buffers)

    def put(self, keys: Sequence[str], buffers: Sequence[Buffer]) -> Results:
        """Store each buffer under its key."""
        return self._submit(self._client.submit_batch_set, keys, buffers)

    def exists(self, keys: Sequence[str]) -> Results:
        """Whether each key exists."""
        return self._submit(self._client.submit_batch_exists, keys)

    def delete(self, keys: Sequence[str]) -> Results:
        """Delete each key."""
        return self._submit(self._client.submit_batch_delete, keys)

    def close(self) -> None:
        """Resolve every open future (unanswered keys are False) and end the threads; repeatable."""
        if self._thread.is_alive():
            os.eventfd_write(self._stop_fd, 1)
            self._thread.join()
            os.close(self._stop_fd)
            self._client.close()
            self._resolve()

    def _submit(self, submit: Callable[..., int], *batch: Any) -> Results:
        results: Results = Future()
        results.set_running_or_notify_cancel()  # from here on `cancel` is refused: the memory is in use
        with self._lock:
            self._open[submit(*batch)] = results
        if not self._thread.is_alive():
            self._resolve()  # submitted after `close`: it is complete, and nobody else looks
        return results

    def _resolve_until_closed(self) -> None:
        poller = select.poll()
        for descriptor in (self._client.event_fd(), self._stop_fd):
            poller.register(descriptor, select.POLLIN)
        while self._stop_fd not in dict(poller.poll()):
            self._resolve()

    def _resolve(self) -> None:
        with self._lock:
            done = [
                (self._open.pop(future_id), results) for future_id, _, _, results in self._client.drain_completions()
            ]
        for future, results in done:
            future.set_result(results)
