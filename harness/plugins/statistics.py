"""What one Valkey instance was asked and how it answered."""

import threading
from dataclasses import dataclass, field, fields

from harness.plugins.batch import Share
from harness.plugins.connection import Operation


@dataclass(frozen=True, slots=True)
class Statistics:
    """Keys since the start, by what became of them; the bytes of their values; seconds that workers spent on them.

    `unanswered` keys had no reply (a dead instance, a deadline): misses that say nothing of what is stored.
    """

    loaded: int = 0
    load_misses: int = 0
    stored: int = 0
    store_failures: int = 0
    found: int = 0
    lookup_misses: int = 0
    deleted: int = 0
    unanswered: int = 0
    loaded_bytes: int = 0
    stored_bytes: int = 0
    busy_s: float = 0.0

    def __add__(self, other: "Statistics") -> "Statistics":
        return Statistics(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})


@dataclass(slots=True, eq=False)
class Tally:
    """Statistics that several workers add to."""

    _so_far: Statistics = field(default_factory=Statistics)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, share: Share, busy_s: float) -> None:
        """Count a share that is finished."""
        counted = _counted(share, busy_s)
        with self._lock:
            self._so_far += counted

    def read(self) -> Statistics:
        """All shares so far."""
        with self._lock:
            return self._so_far


def _counted(share: Share, busy_s: float) -> Statistics:
    unanswered, done = len(share.pending), share.done
    missed = len(share.requests) - unanswered - len(done)
    moved_bytes = sum(len(request.value) for request in done if request.value is not None)
    rest = Statistics(unanswered=unanswered, busy_s=busy_s)
    match share.batch.operation:
        case Operation.GET:
            return rest + Statistics(loaded=len(done), load_misses=missed, loaded_bytes=moved_bytes)
        case Operation.SET:
            return rest + Statistics(stored=len(done), store_failures=missed, stored_bytes=moved_bytes)
        case Operation.EXISTS:
            return rest + Statistics(found=len(done), lookup_misses=missed)
        case Operation.DELETE:
            return rest + Statistics(deleted=len(done))
