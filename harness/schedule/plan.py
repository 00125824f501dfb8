"""A plan: every request with its due time, its token ids and its encoded HTTP body, fixed before time zero."""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TokenIds = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRequest:
    """One request to send.

    `due_ns` counts from the pass's time zero; in a closed loop it is None: the request is due when its predecessor
    ends. A turn of a session that waits for the one before has `after`, that request's `seq`, and is due `gap_ns`
    after that one has ended, whatever became of it; its `due_ns` is None too. `tokens` (shape [prompt tokens], uint32)
    is what `body` (JSON, UTF-8) asks the server to complete.
    """

    seq: int
    row: int
    session: str
    due_ns: int | None
    tokens: TokenIds
    max_tokens: int
    body: bytes
    after: int | None = None
    gap_ns: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PassPlan:
    """Requests replayed together; counters are read while the engine is idle before and after.

    `concurrency` is None for an open loop (send at the due time, whatever the server does, turns with `after`
    excepted), else the number of requests kept in flight.
    """

    name: str
    requests: tuple[PlannedRequest, ...]
    concurrency: int | None

    def content(self) -> bytes:
        """A digest of what is sent and when: due times, tokens and output lengths, but not the model's name."""
        digest = hashlib.sha256(f"{self.name}|{self.concurrency}|{len(self.requests)}".encode())
        for request in self.requests:
            due = request.due_ns if request.after is None else f"{request.after}+{request.gap_ns}"
            digest.update(f"|{request.seq},{request.row},{due},{request.max_tokens},".encode())
            digest.update(np.ascontiguousarray(request.tokens, dtype="<u4").tobytes())
        return digest.digest()


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A workload made concrete: its passes in order, and the prompts that warm the caches first (none if cold).

    Two runs whose `hash` differs did not replay the same thing and cannot be paired. `transforms` says what was done
    to the trace, step by step (none for passes); what they did is in the hash, their words are not.
    """

    workload: str
    passes: tuple[PassPlan, ...]
    prewarm: PassPlan | None
    hash: str
    transforms: tuple[str, ...] = ()

    @staticmethod
    def of(workload: str, passes: tuple[PassPlan, ...], prewarm: PassPlan | None) -> "Plan":
        """A plan with the content hash of its passes (the prewarm included)."""
        parts = [part.content() for part in (*passes, *((prewarm,) if prewarm else ()))]
        return Plan(workload, passes, prewarm, hashlib.sha256(b"".join(parts)).hexdigest())
