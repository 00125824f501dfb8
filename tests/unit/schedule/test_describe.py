"""A plan in numbers."""

from harness.schedule import PlanSummary, Prompting, describe, plan_passes, plan_trace
from harness.trace import Trace, TraceRequest

PROMPTING = Prompting("model", "salt", 10, 32_000)


def trace_of(*rows: tuple[int, int]) -> Trace:
    """Requests of one block each, of (arrival in us, input tokens)."""
    requests = tuple(TraceRequest(i, "", 0, us, tokens, 3, (i,)) for i, (us, tokens) in enumerate(rows))
    return Trace(requests, 512, "here", "unstated")


def test_a_replay() -> None:
    """An open loop has a span, a rate by its gaps, and no concurrency."""
    plan = plan_trace("t", trace_of((0, 10), (500_000, 30), (2_000_000, 20), (2_000_000, 50)), PROMPTING, prewarm=True)

    assert describe(plan) == PlanSummary(
        requests=4,
        turns_that_wait=0,
        span_s=2.0,
        rate_per_s=1.5,
        prompt_tokens_total=110,
        prompt_tokens_min=10,
        prompt_tokens_p50=25.0,
        prompt_tokens_max=50,
        output_tokens_total=12,
        concurrency=None,
        prewarm_requests=0,
        prewarm_prompt_tokens=0,
    )


def test_passes() -> None:
    """A closed loop has a concurrency, and neither span nor rate; the prewarm is counted apart."""
    plan = plan_passes("docs", 3, 40, 5, 4, ("first", "reverse"), 2, PROMPTING, prewarm=True)

    assert describe(plan) == PlanSummary(
        requests=6,
        turns_that_wait=0,
        span_s=None,
        rate_per_s=None,
        prompt_tokens_total=270,
        prompt_tokens_min=45,
        prompt_tokens_p50=45.0,
        prompt_tokens_max=45,
        output_tokens_total=24,
        concurrency=2,
        prewarm_requests=3,
        prewarm_prompt_tokens=135,
    )


def test_all_at_once() -> None:
    """Requests that are due at once have a span of zero and no rate."""
    summary = describe(plan_trace("t", trace_of((0, 10), (0, 10)), PROMPTING, prewarm=False))

    assert (summary.span_s, summary.rate_per_s) == (0.0, None)
