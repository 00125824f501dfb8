"""Any object: Valkey's allkeys-random. Seeded, so that equal input gives equal output."""

import random

from harness.sim.keys import Key


class RandomChoice:
    """Gives up one of all, each with equal chance."""

    def __init__(self, seed: int = 0) -> None:
        self._keys: list[Key] = []
        self._place: dict[Key, int] = {}
        self._draws = random.Random(seed)  # noqa: S311 - which object goes is no secret

    def add(self, key: Key) -> None:
        """One more to draw from."""
        self._place[key] = len(self._keys)
        self._keys.append(key)

    def touch(self, key: Key) -> None:
        """Uses do not count."""

    def discard(self, key: Key) -> None:
        """One less; the last takes its place in the list."""
        place, last = self._place.pop(key), self._keys.pop()
        if last != key:
            self._keys[place], self._place[last] = last, place

    def evict(self) -> Key:
        """A draw."""
        key = self._keys[self._draws.randrange(len(self._keys))]
        self.discard(key)
        return key
