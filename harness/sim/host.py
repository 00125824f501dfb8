"""LMCache's host tier (L1): whole chunks in a fixed amount of memory.

The rules are those of LMCache 0.5.5: its multiprocess server (v1/distributed/eviction_policy/lru.py,
storage_controllers/eviction_controller.py) and its in-process backend (v1/storage_backend/local_cpu_backend.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.sim.keys import Key
from harness.sim.policy import POLICIES


@dataclass(frozen=True, slots=True)
class HostSpec:
    """`chunks` is how many fit. With a `watermark` (the multiprocess server) a sweep, once a second, gives up `ratio`
    of the chunks when that share of the memory is used, and what does not fit is not stored; a prompt's tail goes
    first. Without one (in-process) a chunk is given up whenever room is needed, and a prompt's head goes first.

    Raises ValueError for a policy that is not known, or for no room.
    """

    chunks: int
    policy: str = "lru"
    watermark: float | None = 0.8
    ratio: float = 0.2

    def __post_init__(self) -> None:
        if self.chunks < 1:
            raise ValueError("the host tier does not hold a single chunk: give it more memory, or make chunks smaller")
        if self.policy not in POLICIES:
            raise ValueError(f"no policy is called {self.policy!r}: one of {', '.join(POLICIES)}")


class HostTier:
    """Which chunks host memory holds."""

    def __init__(self, spec: HostSpec) -> None:
        self._spec = spec
        self._held: set[Key] = set()
        self._policy = POLICIES[spec.policy](spec.chunks)

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def use(self, keys: Sequence[Key]) -> None:
        """A request was served from, or stored, these chunks of its prompt: they are the latest, the first of all."""
        for key in reversed(keys):
            if key in self._held:
                self._policy.touch(key)

    def put(self, keys: Sequence[Key]) -> None:
        """Store chunks of one prompt, in their order; those that are held already are left alone.

        In-process, room is made for all of them before anything is known to be held already.
        """
        if self._spec.watermark is None:
            wanted = keys[: self._spec.chunks]
            while len(self._held) + len(wanted) > self._spec.chunks:
                self._held.discard(self._policy.evict())
            for key in wanted:
                if key not in self._held:
                    self._add(key)
        else:
            new = [key for key in keys if key not in self._held]
            for key in reversed(new[: self._spec.chunks - len(self._held)]):
                self._add(key)

    def sweep(self) -> None:
        """What the server does once a second."""
        mark = self._spec.watermark
        if mark is None or len(self._held) < mark * self._spec.chunks:
            return
        for _ in range(max(1, int(len(self._held) * self._spec.ratio))):
            self._held.discard(self._policy.evict())

    def _add(self, key: Key) -> None:
        self._held.add(key)
        self._policy.add(key)
