"""What every eviction policy can do."""

from typing import Protocol

from harness.sim.keys import Key


class Policy(Protocol):
    """Knows which objects a cache holds, and which of them goes next. Objects are all of one size."""

    def add(self, key: Key) -> None:
        """An object that was not held has come in."""

    def touch(self, key: Key) -> None:
        """One that is held was used."""

    def discard(self, key: Key) -> None:
        """One that is held has gone for another reason than eviction."""

    def evict(self) -> Key:
        """Give one up, and say which; at least one is held."""
