"""The remote tier: N Valkey instances, which of them holds a chunk, and what they forget when they are full."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from harness.sim.keys import Key
from harness.sim.policy import POLICIES, Policy

PLACEMENTS = ("chunk", "rank", "consistent", "position")


@dataclass(frozen=True, slots=True)
class RemoteSpec:
    """Instances, and where the parts of a chunk go.

    `chunk`: the chunk's hash modulo the instances; `consistent`: rendezvous hashing; `position`: chunk c of a prompt
    on instance c modulo the instances; `rank`: each of `ranks` keeps its equal part of every chunk on an instance of
    its own. `instance_bytes` is each one's memory (None: all that is needed), `policy` what goes when it is full
    (None: nothing, and what does not fit is not stored).

    Raises ValueError for a placement that cannot be, a policy that is not known, or no instance.
    """

    instances: int
    placement: str = "chunk"
    ranks: int = 1
    instance_bytes: int | None = None
    policy: str | None = None

    def __post_init__(self) -> None:
        if self.instances < 1 or self.ranks < 1:
            raise ValueError(f"{self.instances} instances and {self.ranks} ranks: at least one of each")
        if self.placement not in PLACEMENTS:
            raise ValueError(f"no placement is called {self.placement!r}: one of {', '.join(PLACEMENTS)}")
        if self.placement == "rank" and self.instances < self.ranks:
            raise ValueError(f"placement rank with {self.ranks} ranks and {self.instances} instances: one a rank")
        if self.policy is not None and self.policy not in POLICIES:
            raise ValueError(f"no policy is called {self.policy!r}: one of {', '.join(POLICIES)}")


@dataclass(frozen=True, slots=True)
class Part:
    """What one instance holds of one chunk."""

    instance: int
    bytes: float


class RemoteTier:
    """Which chunks the instances hold; a chunk is there if every part of it is."""

    def __init__(self, spec: RemoteSpec, chunk_bytes: float) -> None:
        self._spec = spec
        self._parts = spec.ranks if spec.placement == "rank" else 1
        self._part_bytes = chunk_bytes / self._parts
        size = spec.instance_bytes
        self._room = None if size is None else int(size / self._part_bytes) if self._part_bytes else None
        if self._room == 0:
            raise ValueError("an instance does not hold a single chunk: give it more memory, or make chunks smaller")
        self._instances = [_Instance(self._room, spec.policy) for _ in range(spec.instances)]

    def holds(self, key: Key, place: int) -> bool:
        """Whether chunk `key`, the `place`-th of its prompt, is there whole."""
        return all(key in self._instances[part.instance].held for part in self.parts(key, place))

    def parts(self, key: Key, place: int) -> tuple[Part, ...]:
        """Where the chunk is, or would be."""
        spec = self._spec
        if spec.placement == "rank":
            return tuple(Part(rank, self._part_bytes) for rank in range(spec.ranks))
        if spec.placement == "position":
            home = place % spec.instances
        elif spec.placement == "consistent":
            home = _highest(key, spec.instances)
        else:
            home = int.from_bytes(key, "big") % spec.instances
        return (Part(home, self._part_bytes),)

    def use(self, key: Key, place: int) -> None:
        """The chunk was read."""
        for part in self.parts(key, place):
            self._instances[part.instance].touch(key)

    def put(self, key: Key, place: int) -> tuple[Part, ...]:
        """Store a chunk; the parts that were written."""
        return tuple(part for part in self.parts(key, place) if self._instances[part.instance].put(key))

    def bytes_held(self) -> Sequence[float]:
        """By instance."""
        return [len(one.held) * self._part_bytes for one in self._instances]


class _Instance:
    """One Valkey: keys, a limit, and a policy."""

    def __init__(self, room: int | None, policy: str | None) -> None:
        self.held: set[Key] = set()
        self._room = room
        self._policy: Policy | None = POLICIES[policy](room) if policy is not None and room is not None else None

    def touch(self, key: Key) -> None:
        if self._policy is not None and key in self.held:
            self._policy.touch(key)

    def put(self, key: Key) -> bool:
        if key in self.held:
            return False
        if self._room is not None and len(self.held) >= self._room:
            if self._policy is None:
                return False
            self.held.discard(self._policy.evict())
        self.held.add(key)
        if self._policy is not None:
            self._policy.add(key)
        return True


def _highest(key: Key, instances: int) -> int:
    """Rendezvous hashing (Thaler and Ravishankar, 1998)."""
    return max(range(instances), key=lambda one: hashlib.blake2b(key, key=one.to_bytes(2, "big")).digest())
