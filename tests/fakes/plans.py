"""Small plans for the simulators."""

from collections.abc import Sequence

import numpy as np

from harness.records import Cell
from harness.schedule import PassPlan, Plan, PlannedRequest

CELL = Cell("sim", "experiment", "arm", "workload", "", 0, "-sim", 0, 0)


def request(seq: int, tokens: Sequence[int], *, max_tokens: int = 1, due_s: float | None = None) -> PlannedRequest:
    """A request with this prompt."""
    due_ns = None if due_s is None else round(due_s * 1e9)
    return PlannedRequest(seq, seq, "", due_ns, np.array(tokens, dtype=np.uint32), max_tokens, b"")


def closed(
    prompts: Sequence[Sequence[int]], *, concurrency: int = 1, max_tokens: int = 1, name: str = "first"
) -> PassPlan:
    """These prompts, so many in flight."""
    requests = tuple(request(seq, tokens, max_tokens=max_tokens) for seq, tokens in enumerate(prompts))
    return PassPlan(name, requests, concurrency)


def opened(arrivals: Sequence[tuple[float, Sequence[int]]], *, max_tokens: int = 1) -> PassPlan:
    """(due in seconds, prompt), in order."""
    requests = tuple(
        request(seq, tokens, max_tokens=max_tokens, due_s=due) for seq, (due, tokens) in enumerate(arrivals)
    )
    return PassPlan("replay", requests, None)


def plan_of(*passes: PassPlan, prewarm: PassPlan | None = None) -> Plan:
    """A plan of these passes."""
    return Plan.of("workload", passes, prewarm)


def own_prompts(lengths: Sequence[int]) -> list[np.ndarray]:
    """Prompts of these lengths that share nothing."""
    return [np.full(length, seq + 1, dtype=np.uint32) for seq, length in enumerate(lengths)]
