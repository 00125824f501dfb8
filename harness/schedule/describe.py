"""A plan in numbers, for people who want to know what they are about to start."""

import statistics
from dataclasses import dataclass

from harness.schedule.plan import Plan


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """Sizes of a plan's measured passes together; the prewarm has its own two figures.

    `span_s` runs from the first due time to the last and `rate_per_s` is (n - 1) / span, n being the requests with a
    due time; both are None in a closed loop, and the rate also where all requests are due at once. `turns_that_wait`
    is how many are due when their predecessor has ended instead. `concurrency` is None in an open loop.
    """

    requests: int
    turns_that_wait: int
    span_s: float | None
    rate_per_s: float | None
    prompt_tokens_total: int
    prompt_tokens_min: int
    prompt_tokens_p50: float
    prompt_tokens_max: int
    output_tokens_total: int
    concurrency: int | None
    prewarm_requests: int
    prewarm_prompt_tokens: int


def describe(plan: Plan) -> PlanSummary:
    """The summary of a plan that has at least one request."""
    requests = [request for part in plan.passes for request in part.requests]
    lengths = [len(request.tokens) for request in requests]
    due_ns = [request.due_ns for request in requests if request.due_ns is not None]
    span_s = (max(due_ns) - min(due_ns)) / 1e9 if due_ns else None
    warming = plan.prewarm.requests if plan.prewarm else ()
    return PlanSummary(
        requests=len(requests),
        turns_that_wait=sum(request.after is not None for request in requests),
        span_s=span_s,
        rate_per_s=(len(due_ns) - 1) / span_s if span_s else None,
        prompt_tokens_total=sum(lengths),
        prompt_tokens_min=min(lengths),
        prompt_tokens_p50=float(statistics.median(lengths)),
        prompt_tokens_max=max(lengths),
        output_tokens_total=sum(request.max_tokens for request in requests),
        concurrency=plan.passes[0].concurrency,
        prewarm_requests=len(warming),
        prewarm_prompt_tokens=sum(len(request.tokens) for request in warming),
    )
