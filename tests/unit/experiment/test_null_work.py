"""The loads of the self-test."""

import json

import pytest

from harness.experiment.null_work import WORKS, Work


@pytest.mark.parametrize("work", [work.scaled(0.02) for work in WORKS], ids=lambda work: work.name)
def test_a_work_is_a_plan_that_is_the_same_every_time(work: Work) -> None:
    """As many requests as it says, of its length, due in order, equal on every call."""
    plan = work.plan()
    assert len(plan.requests) == work.requests
    due = [request.due_ns or 0 for request in plan.requests]
    assert due == sorted(due)
    assert len(json.loads(plan.requests[-1].body)["prompt"]) == work.prompt_tokens
    assert plan.content() == work.plan().content()


def test_waves_stay_whole() -> None:
    """A hundred streams at once are a hundred at any scale."""
    (waves,) = (work for work in WORKS if work.name == "streams-100")
    due = [request.due_ns for request in waves.scaled(0.01).plan().requests]
    assert due == [0] * 100
