"""Ten documents, published and ours, beside each other."""

from harness.analysis import summarise, tell
from harness.report.story_rows import published_table
from tests.fakes.runs import FakePass, fake_arm, fake_run

ARMS = ("recompute", "host")


def table(documents: int) -> list[tuple[str, ...]]:
    """The lines of a run over so many documents."""
    passes = [
        FakePass(arm, [base, base, base + 30.0], workload="docs", name=name)
        for arm, base in (("recompute", 200.0), ("host", 30.0))
        for name in ("first", "again")
    ]
    spec = {
        "arms": [fake_arm(arm) for arm in ARMS],
        "workloads": [{"name": "docs", "passes": {"documents": documents}}],
    }
    run = fake_run(passes, spec=spec)
    return [row.cells for row in published_table(tell(run, summarise(run, 20))).rows]


def test_published_and_ours() -> None:
    """Each configuration of each pass that we ran: p50 and mean as published, and of our arm of that kind."""
    assert table(10) == [
        ("docs/first", "vLLM alone", "576", "581", "200", "210"),
        ("docs/first", "LMCache in host memory", "598", "605", "30.0", "40.0"),
        ("docs/again", "vLLM alone", "576", "576", "200", "210"),
        ("docs/again", "LMCache in host memory", "48.6", "49.6", "30.0", "40.0"),
    ]


def test_other_workloads_have_no_counterpart() -> None:
    """Eight documents are not the published ten."""
    assert table(8) == []
