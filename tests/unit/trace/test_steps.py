"""Transforms one after the other."""

from harness.trace import Trace, TraceRequest
from harness.trace.steps import Step, apply
from harness.trace.transform import cap_gaps, limit, speedup

TRACE = Trace(
    tuple(TraceRequest(i, "", 0, us, 512, 1, (0,)) for i, us in enumerate((0, 217_000_000, 220_000_000))),
    512,
    "here",
    "unstated",
)


def test_steps_are_applied_in_the_order_given_and_say_what_they_did() -> None:
    """One line a step: rows, gaps, span and lengths that changed."""
    steps = [
        Step("gap_cap 60 s", lambda trace: cap_gaps(trace, 60_000_000)),
        Step("speedup 10", lambda trace: speedup(trace, 10)),
        Step("limit 2", lambda trace: limit(trace, 2)),
        Step("limit 9", lambda trace: limit(trace, 9)),
    ]

    after, log = apply(TRACE, steps)

    assert [one.arrival_us for one in after.requests] == [0, 6_000_000]
    limited = "limit 2: 3 -> 2 rows, span 6.300 s -> 6.000 s, input 1,536 tokens -> 1,024 tokens"
    assert log == (
        "gap_cap 60 s: 1 of 2 gaps changed, span 220.000 s -> 63.000 s",
        "speedup 10: 2 of 2 gaps changed, span 63.000 s -> 6.300 s",
        f"{limited}, output 3 tokens -> 2 tokens",
        "limit 9: no change",
    )


def test_another_order_is_another_trace() -> None:
    """A cap behind the speed-up caps other gaps."""
    cap = Step("cap", lambda trace: cap_gaps(trace, 60_000_000))
    speed = Step("speed", lambda trace: speedup(trace, 10))

    assert apply(TRACE, [cap, speed])[0] != apply(TRACE, [speed, cap])[0]
    assert apply(TRACE, []) == (TRACE, ())
