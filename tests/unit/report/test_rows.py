"""The table as text."""

from harness.analysis import summarise
from harness.records import Run
from harness.report.cells import Row, table_by_pass
from harness.report.rows import HEADERS, arms_table, machine_rows
from tests.fakes.runs import FakePass, fake_run

CLIMBING = [float(ms) for ms in range(100, 400)]


def rows(run: Run, intervals: bool = False) -> tuple[Row, ...]:
    """The table of a run."""
    return arms_table(summarise(run, 20), intervals).rows


def test_a_row() -> None:
    """A row has p50, p99, both ratios, mean, failures and both hits, in the order of the headers."""
    hits = {"prefix_cache_hits": 0, "external_prefix_cache_hits": 19_200}
    run = fake_run([FakePass("recompute", [100.0] * 9), FakePass("valkey-1", [*[250.0] * 9, None], counters=hits)])
    cells = dict(zip(HEADERS, rows(run)[1].cells, strict=True))
    assert list(cells.values()) == [
        *("trace/replay", "valkey-1", "250", "250", "2.5", "2.5", "250", "1 of 10", "0", "19,200"),
    ]


def test_missing_is_a_dash() -> None:
    """What was not measured is a dash, never a zero."""
    (row,) = rows(fake_run([FakePass("host", [None])]))
    assert row.cells[2:] == ("-", "-", "-", "-", "-", "1 of 1", "-", "-")


def test_an_unstable_p50_says_so() -> None:
    """Whatever shows the p50 of an unstable arm shows that it is rising."""
    for intervals in (False, True):
        cell = rows(fake_run([FakePass("valkey-1", CLIMBING)]), intervals)[0].cells[2]
        assert cell.partition(" [")[0].endswith(" (rising)")


def test_intervals() -> None:
    """With intervals each latency has its own in brackets; one request has none."""
    steady, single = (rows(fake_run([FakePass("a", values)]), intervals=True)[0] for values in ([7.0] * 9, [7.0]))
    assert steady.cells[2] == "7.00 [7.00, 7.00]"
    assert single.cells[2] == "7.00"


def test_arms_of_a_pass_stand_together() -> None:
    """Arms are recorded one after another, but read beside each other, pass by pass."""
    run = fake_run([FakePass(arm, [1.0], name=name) for arm in ("recompute", "host") for name in ("first", "again")])
    table = [(row.cells[0], row.cells[1], row.opens) for row in rows(run)]
    assert table == [
        ("trace/first", "recompute", True),
        ("trace/first", "host", False),
        ("trace/again", "recompute", True),
        ("trace/again", "host", False),
    ]


def test_replays_come_first() -> None:
    """Lines of one pass stand together, replays before all others; the rest keeps its order."""
    lines = [("docs/again", "a"), ("x/replay", "a"), ("docs/first", "a"), ("docs/again", "b"), ("x/replay", "b")]
    table = table_by_pass(("workload/pass", "arm"), lines)
    assert [row.cells for row in table.rows] == [lines[1], lines[4], lines[0], lines[3], lines[2]]
    assert [row.opens for row in table.rows] == [True, False, True, False, True]
    assert [row.cells for row in table.of("docs/again").rows] == [lines[0], lines[3]]
    assert "docs/again" not in {row.cells[0] for row in table.without("docs/again").rows}


def test_machine() -> None:
    """R, s and B* are the machine's, links and rho the arm's."""
    arms = {"valkey-1": {"link_bytes_per_s": None, "instances": 1, "rho": 1.13}}
    run = fake_run([], probe={"prefill_tokens_per_s": 9200.0}, arms=arms)
    assert [row[:3] for row in machine_rows(summarise(run, 20))] == [
        ("machine", "prefill_tokens_per_s", "9,200 tokens/s"),
        ("valkey-1", "valkey_instances", "1 instances"),
        ("valkey-1", "rho", "1.13"),
    ]
