"""First in, first out."""

from harness.sim.keys import Key


class Fifo:
    """Gives up what has been held for the longest time, whether it was used or not."""

    def __init__(self) -> None:
        self._order: dict[Key, None] = {}

    def add(self, key: Key) -> None:
        """Last in the queue."""
        self._order[key] = None

    def touch(self, key: Key) -> None:
        """Uses do not count."""

    def discard(self, key: Key) -> None:
        """Forget it."""
        del self._order[key]

    def evict(self) -> Key:
        """The first that came in."""
        key = next(iter(self._order))
        del self._order[key]
        return key
