"""A submitted batch, and its shares: the keys of it that one worker of one instance does."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.plugins.connection import Operation, Request


@dataclass(slots=True, eq=False)
class Batch:
    """One future: `results[i]` tells of its i-th key. Shares write disjoint results, so they need no lock."""

    future_id: int
    operation: Operation
    results: list[bool]
    deadline: float
    shares_left: int = 0
    error: str = ""

    def completion(self) -> tuple[int, bool, str, list[bool]]:
        """The tuple that LMCache's NativeConnectorL2Adapter takes: future id, ok, error, results.

        ok is the truth of a whole store, for which the adapter reads nothing else. A lookup or a load is always ok:
        the adapter would take a lookup that is not ok for a miss of every key, those on healthy instances included.
        """
        ok = self.operation is not Operation.SET or all(self.results)
        return self.future_id, ok, self.error, list(self.results)


@dataclass(slots=True, eq=False)
class Share:
    """Requests of a batch, and where in the batch they stand. `answered` of them have their result."""

    batch: Batch
    positions: Sequence[int]
    requests: Sequence[Request]
    answered: int = field(default=0, init=False)

    @property
    def pending(self) -> Sequence[Request]:
        """What is still to be asked for."""
        return self.requests[self.answered :]

    @property
    def done(self) -> Sequence[Request]:
        """What was asked for and is True: found, loaded, stored or deleted."""
        return [request for request, at in zip(self.requests, self.positions, strict=True) if self.batch.results[at]]

    @property
    def expired(self) -> bool:
        """Whether its deadline has passed."""
        return time.monotonic() >= self.batch.deadline

    def answer(self, outcome: bool | str) -> None:
        """Take the next request's outcome: its result, or the server's error."""
        if isinstance(outcome, str):
            self.fail(outcome)
        else:
            self.batch.results[self.positions[self.answered]] = outcome
        self.answered += 1

    def fail(self, error: str) -> None:
        """Keep the batch's first error; results that are not yet there stay False."""
        self.batch.error = self.batch.error or error


def dealt(positions: Sequence[int], hands: int) -> list[Sequence[int]]:
    """`positions` in at most `hands` contiguous, non-empty, near-equal parts, in order."""
    size = -(-len(positions) // hands)
    return [positions[first : first + size] for first in range(0, len(positions), size)] if positions else []
