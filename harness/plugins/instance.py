"""One Valkey instance: a queue of shares and the worker threads, each with its connection, that do them in order."""

import logging
import queue
import threading
from collections.abc import Callable

from harness.plugins.batch import Share
from harness.plugins.connection import Connection

logger = logging.getLogger(__name__)


class Instance:
    """Workers of one endpoint. `finished` is called once for every submitted share, from a worker.

    Shares start in the order of their submission, hence of their deadlines: a worker that is held up until a deadline
    holds up no share beyond its own. Raises ValueError when `endpoint` is not host:port.
    """

    def __init__(self, endpoint: str, workers: int, finished: Callable[[Share], None]) -> None:
        host, _, port = endpoint.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"endpoint {endpoint!r} is not host:port, such as 127.0.0.1:6379")
        self._endpoint = endpoint
        self._finished = finished
        self._shares: queue.SimpleQueue[Share | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._unreachable = False
        self._connections = [Connection(host, int(port)) for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._work, args=(connection,), name=f"valkey-{endpoint}-{number}", daemon=True)
            for number, connection in enumerate(self._connections)
        ]

    @property
    def workers(self) -> int:
        """How many shares are done at a time."""
        return len(self._threads)

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
            try:
                self._serve(connection, share)
            except Exception as fault:
                # Memory that cannot be written, say: it costs this share, never the worker, nor LMCache a future.
                logger.exception("a batch on Valkey %s failed", self._endpoint)
                share.fail(repr(fault))
                connection.drop()
            self._finished(share)
        connection.drop()

    def _serve(self, connection: Connection, share: Share) -> None:
        """Do a share. An open connection may have died unnoticed since its last use, so it gets a second, fresh one."""
        while share.pending and not share.expired and not self._closed.is_set():
            reused = connection.is_open
            try:
                if not reused:
                    connection.open(share.batch.deadline)
                    self._note_reachable()
                for outcome in connection.exchange(share.pending, share.batch.deadline):
                    share.answer(outcome)
            except OSError as trouble:
                connection.drop()
                share.fail(f"Valkey {self._endpoint}: {trouble}")
                if not reused:
                    self._note_trouble(trouble)
                    return
        if share.pending:
            share.fail(f"Valkey {self._endpoint}: {'closed' if self._closed.is_set() else 'the deadline has passed'}")

    def _note_reachable(self) -> None:
        if self._unreachable:
            self._unreachable = False
            logger.warning("Valkey %s answers again", self._endpoint)

    def _note_trouble(self, trouble: OSError) -> None:
        """One line an outage, in LMCache's log: the misses it causes are otherwise silent."""
        if not self._unreachable and not self._closed.is_set():
            self._unreachable = True
            logger.warning("Valkey %s does not answer, its chunks are misses: %s", self._endpoint, trouble)
