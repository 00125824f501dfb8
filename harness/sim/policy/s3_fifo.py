"""S3-FIFO: three queues, of which a small one keeps what is used once from pushing out what is used again.

Yang and others, "FIFO queues are all you need for cache eviction", SOSP 2023, algorithm 1.
"""

from collections import OrderedDict

from harness.sim.keys import Key

_SMALL_SHARE = 0.1
_MOST_USES = 3


class S3Fifo:
    """A tenth of the room is a FIFO for newcomers; what was used more than once there moves to the main FIFO.

    What leaves the newcomers' queue unused is remembered by name as long as the main queue could hold it: if it comes
    again, it goes to the main queue at once. The main queue gives what was used another round. `capacity` is the
    number of objects the cache holds.
    """

    def __init__(self, capacity: int) -> None:
        self._small_room = max(1, int(capacity * _SMALL_SHARE))
        self._ghost_room = max(1, capacity - self._small_room)
        self._small: OrderedDict[Key, int] = OrderedDict()
        self._main: OrderedDict[Key, int] = OrderedDict()
        self._ghost: OrderedDict[Key, None] = OrderedDict()

    def add(self, key: Key) -> None:
        """To the main queue if it is remembered, else to the newcomers."""
        if key in self._ghost:
            del self._ghost[key]
            self._main[key] = 0
        else:
            self._small[key] = 0

    def touch(self, key: Key) -> None:
        """One use more, counted up to three."""
        queue = self._small if key in self._small else self._main
        queue[key] = min(queue[key] + 1, _MOST_USES)

    def discard(self, key: Key) -> None:
        """Forget it."""
        if key in self._small:
            del self._small[key]
        else:
            del self._main[key]

    def evict(self) -> Key:
        """From the newcomers if they have more than their room, else from the main queue."""
        while self._small and (len(self._small) >= self._small_room or not self._main):
            key, uses = self._small.popitem(last=False)
            if uses <= 1:
                self._remember(key)
                return key
            self._main[key] = 0
        while True:
            key, uses = self._main.popitem(last=False)
            if not uses:
                return key
            self._main[key] = uses - 1

    def _remember(self, key: Key) -> None:
        self._ghost[key] = None
        if len(self._ghost) > self._ghost_room:
            self._ghost.popitem(last=False)
