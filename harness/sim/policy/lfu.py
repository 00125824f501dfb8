"""Least frequently used: what Valkey's allkeys-lfu does (Valkey counts roughly, forgets with time, and samples)."""

from collections import OrderedDict

from harness.sim.keys import Key


class Lfu:
    """Gives up what was used least often since it came in; of those, what was used the longest ago."""

    def __init__(self) -> None:
        self._uses: dict[Key, int] = {}
        self._by_uses: dict[int, OrderedDict[Key, None]] = {}

    def add(self, key: Key) -> None:
        """Used once."""
        self._put(key, 1)

    def touch(self, key: Key) -> None:
        """Used once more."""
        self._put(key, self._take(key) + 1)

    def discard(self, key: Key) -> None:
        """Forget it and its count."""
        self._take(key)

    def evict(self) -> Key:
        """The one with the fewest uses."""
        key = next(iter(self._by_uses[min(self._by_uses)]))
        self._take(key)
        return key

    def _put(self, key: Key, uses: int) -> None:
        self._uses[key] = uses
        self._by_uses.setdefault(uses, OrderedDict())[key] = None

    def _take(self, key: Key) -> int:
        uses = self._uses.pop(key)
        del self._by_uses[uses][key]
        if not self._by_uses[uses]:
            del self._by_uses[uses]
        return uses
