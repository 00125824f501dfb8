"""Least recently used: what LMCache and Valkey's allkeys-lru do (Valkey samples; this is exact)."""

from collections import OrderedDict

from harness.sim.keys import Key


class Lru:
    """Gives up what was not used for the longest time."""

    def __init__(self) -> None:
        self._order: OrderedDict[Key, None] = OrderedDict()

    def add(self, key: Key) -> None:
        """The latest of all."""
        self._order[key] = None

    def touch(self, key: Key) -> None:
        """The latest again."""
        self._order.move_to_end(key)

    def discard(self, key: Key) -> None:
        """Forget it."""
        del self._order[key]

    def evict(self) -> Key:
        """The one used the longest ago."""
        return self._order.popitem(last=False)[0]
