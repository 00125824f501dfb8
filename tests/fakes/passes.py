"""Small passes to replay."""

import json
from collections.abc import Sequence

import numpy as np

from harness.records import Cell
from harness.schedule import PassPlan, PlannedRequest

PROMPT_TOKENS = 3


def cell(t0_ns: int = 0, t0_unix_ns: int = 0) -> Cell:
    """A cell of a run whose origin is `t0_ns`."""
    return Cell("run", "experiment", "arm", "workload", "replay", 0, "-s0", t0_ns, t0_unix_ns)


def planned(seq: int, due_ns: int | None, max_tokens: int = 2) -> PlannedRequest:
    """A request with a prompt of PROMPT_TOKENS tokens."""
    tokens = np.arange(PROMPT_TOKENS, dtype=np.uint32) + np.uint32(seq)
    body = json.dumps({"model": "m", "prompt": tokens.tolist(), "max_tokens": max_tokens, "stream": True})
    return PlannedRequest(seq, 100 + seq, "session", due_ns, tokens, max_tokens, body.encode())


def open_loop(due_ns: Sequence[int], max_tokens: int = 2) -> PassPlan:
    """Requests at these times."""
    return PassPlan("replay", tuple(planned(seq, due, max_tokens) for seq, due in enumerate(due_ns)), None)


def closed_loop(requests: int, concurrency: int, max_tokens: int = 2) -> PassPlan:
    """`requests` requests, `concurrency` of them in flight."""
    return PassPlan("first", tuple(planned(seq, None, max_tokens) for seq in range(requests)), concurrency)
