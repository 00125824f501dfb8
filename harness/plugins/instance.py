"""One Valkey instance: a queue of shares and the worker threads, each with its connection, that do them in order."""

import queue
import threading
import time
from collections.abc import Callable

from harness.plugins.batch import Share
from harness.plugins.connection import Connection
from harness.plugins.log import logger
from harness.plugins.outage import Outage
from harness.plugins.statistics import Statistics, Tally


class Instance:
    """Workers of one endpoint, each with a connection from `connect`.

    `finished` is called once for every submitted share, from a worker.

    Shares start in the order of their submission, hence of their deadlines: a worker that is held up until a deadline
    holds up no share beyond its own.
    """

    def __init__(
        self, connect: Callable[[], Connection], outage: Outage, workers: int, finished: Callable[[Share], None]
    ) -> None:
        self._name = outage.name
        self._outage = outage
        self._finished = finished
        self._tally = Tally()
        self._shares: queue.SimpleQueue[Share | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._connections = [connect() for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._work, args=(connection,), name=f"valkey-{outage.name}-{number}", daemon=True)
            for number, connection in enumerate(self._connections)
        ]

    @property
    def workers(self) -> int:
        """How many shares are done at a time."""
        return len(self._threads)

    def statistics(self) -> Statistics:
        """What this instance has done so far."""
        return self._tally.read()

    def start(self) -> None:
        """Start the workers. Nothing is connected before the first share."""
        for thread in self._threads:
            thread.start()

    def submit(self, share: Share) -> None:
        """Queue a share. After `close` no worker would take it: the caller must not submit any more."""
        self._shares.put(share)

    def close(self) -> None:
        """Interrupt what runs; queued shares end unanswered. Returns at once, `join` waits."""
        self._closed.set()
        for connection in self._connections:
            connection.close()
            self._shares.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait for the workers, at most `timeout_s` for each."""
        for thread in self._threads:
            thread.join(timeout_s)

    def _work(self, connection: Connection) -> None:
        while (share := self._shares.get()) is not None:
            began = time.monotonic()
            try:
                self._serve(connection, share)
            except Exception as fault:  # noqa: BLE001 - logged, and told to whoever waits
                # Memory that cannot be written, say: it costs this share, never the worker, nor LMCache a future.
                logger.exception("a batch on Valkey %s failed", self._name)
                share.fail(repr(fault))
                connection.drop()
            self._tally.add(share, time.monotonic() - began)
            self._finished(share)
        connection.drop()

    def _serve(self, connection: Connection, share: Share) -> None:
        """Do a share. An open connection may have died unnoticed since its last use, so it gets a second, fresh one."""
        while share.pending and not share.expired and not self._closed.is_set():
            reused = connection.is_open
            try:
                if not reused:
                    connection.open(share.batch.deadline)
                    self._outage.ends()
                for outcome in connection.exchange(share.pending, share.batch.deadline):
                    share.answer(outcome)
            except OSError as trouble:
                connection.drop()
                share.fail(f"Valkey {self._name}: {trouble}")
                if not reused:
                    if not self._closed.is_set():
                        self._outage.begins(trouble, connection.tried_s)
                    return
        if share.pending:
            share.fail(f"Valkey {self._name}: {'closed' if self._closed.is_set() else 'the deadline has passed'}")
