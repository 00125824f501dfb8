"""Moving bytes: instances that serve in the order asked, and a limit on how many prompts load at once."""

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from harness.sim.remote import Part


class Links:
    """One server an instance, first come first served; times only go on.

    `busy` has every (instance, begin, end) in which one served. An instance without a rate takes no time.
    """

    def __init__(self, bytes_per_s: Sequence[float], cv: float = 0.0, seed: int = 0) -> None:
        self._rates = bytes_per_s
        self._free_at = [0.0] * len(bytes_per_s)
        self._shape = None if cv == 0 else 1 / cv**2
        self._draws = random.Random(seed)  # noqa: S311 - how long a part takes is no secret
        self.busy: list[tuple[int, float, float]] = []

    @property
    def free_at(self) -> float:
        """When the last of all that was asked for has come."""
        return max(self._free_at, default=0.0)

    def move(self, parts: Sequence[Part], at: float) -> float:
        """Ask for parts at once; when the last of them has come (seconds)."""
        end = at
        for part in parts:
            if part.instance >= len(self._rates):
                continue
            begin = max(self._free_at[part.instance], at)
            took = part.bytes / self._rates[part.instance]
            if self._shape is not None:
                took *= self._draws.gammavariate(self._shape, 1 / self._shape)
            self._free_at[part.instance] = begin + took
            self.busy.append((part.instance, begin, begin + took))
            end = max(end, begin + took)
        return end


@dataclass(slots=True, eq=False)
class Load:
    """What a prompt waits for: asked at a time, ended at another (None: nobody knows yet)."""

    parts: Sequence[Part]
    asked_at: float
    ends_at: float | None = None


class Loader:
    """Loads beside the engine's steps: at most so many at once, the others in the order asked."""

    def __init__(self, links: Links, in_flight: int) -> None:
        self._links = links
        self._in_flight = in_flight
        self._waiting: deque[Load] = deque()
        self._ends: list[float] = []

    def submit(self, parts: Sequence[Part], now: float) -> Load:
        """Ask for a prompt's parts."""
        load = Load(parts, now)
        self._waiting.append(load)
        self.advance(now)
        return load

    def advance(self, now: float) -> None:
        """Begin whatever can have begun by `now`."""
        while self._waiting:
            at = self._waiting[0].asked_at
            if len(self._ends) >= self._in_flight:
                if self._ends[0] > now:
                    return
                at = max(at, heapq.heappop(self._ends))
            load = self._waiting.popleft()
            load.ends_at = self._links.move(load.parts, at)
            heapq.heappush(self._ends, load.ends_at)

    def next_end(self, now: float) -> float | None:
        """When the next load ends after `now`; None if none is under way."""
        return min((end for end in self._ends if end > now), default=None)
