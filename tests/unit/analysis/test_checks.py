"""Caveats: each is there when its promise was broken, and not otherwise."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.checks import find_caveats
from harness.analysis.group_checks import is_rising
from harness.records import Run
from tests.fakes.runs import FakePass, fake_run

STEADY = [10.0] * 120


def kinds(run: Run) -> set[str]:
    """The kinds of a run's caveats, without the one that a single repeat always has."""
    return {scoped.caveat.kind for scoped in find_caveats(run)} - {"one_repeat"}


def test_a_clean_run_has_none() -> None:
    """Two repeats of enough requests, on time, counted alike, from proved caches: nothing to mind."""
    counters = {
        "prompt_tokens_local_compute": 11_000,
        "prompt_tokens_local_cache_hit": 1_000,
        "prompt_tokens_external_kv_transfer": 0,
    }
    run = fake_run([FakePass("recompute", STEADY, repeat=repeat, counters=counters) for repeat in (0, 1)])
    assert find_caveats(run) == ()


def test_one_repeat() -> None:
    """A single repeat is always said, of the whole run."""
    (scoped,) = find_caveats(fake_run([FakePass("recompute", STEADY)]))
    assert (scoped.caveat.kind, scoped.by) == ("one_repeat", {})


@pytest.mark.parametrize(("planned", "expected"), [(1000, set()), (999, {"failures"})])
def test_failures(planned: int, expected: set[str]) -> None:
    """Over 0.1 % of failures is said; at 0.1 % it is not."""
    assert kinds(fake_run([FakePass("recompute", [None, *[10.0] * (planned - 1)])])) == expected


@pytest.mark.parametrize(("lag_ms", "expected"), [(0.1, set()), (0.11, {"client_late"})])
def test_client_late(lag_ms: float, expected: set[str]) -> None:
    """A p99 send lag over 1 % of the median TTFT (10 ms here) is said."""
    assert kinds(fake_run([FakePass("recompute", STEADY, send_lag_ms=lag_ms)])) == expected


@pytest.mark.parametrize(("counted", "expected"), [(100, set()), (None, set()), (101, {"prompt_tokens"})])
def test_prompt_tokens(counted: int | None, expected: set[str]) -> None:
    """A server that counts other prompt tokens than planned is said; one that does not count is not accused."""
    assert kinds(fake_run([FakePass("recompute", STEADY, prompt_tokens=counted)])) == expected


@pytest.mark.parametrize(("external", "expected"), [(1_000, set()), (999, {"tokens_by_source"}), (None, set())])
def test_tokens_by_source(external: int | None, expected: set[str]) -> None:
    """Computed, local and external tokens must add up to the prompts'; a missing counter tells nothing."""
    counters: dict[str, Any] = {
        "prompt_tokens_local_compute": 10_000,
        "prompt_tokens_local_cache_hit": 1_000,
        "prompt_tokens_external_kv_transfer": external,
    }
    assert kinds(fake_run([FakePass("recompute", STEADY, counters=counters)])) == expected


@pytest.mark.parametrize(
    "planned", [{"recompute/trace/replay/0": 121}, {"recompute/trace/replay/0": 120, "a/b/first/0": 1}]
)
def test_rows_planned(planned: dict[str, int]) -> None:
    """Rows in = rows planned: one too few is said, and so is a pass without any."""
    assert kinds(fake_run([FakePass("recompute", STEADY)], planned=planned)) == {"rows"}


def test_rows_not_planned() -> None:
    """Rows that nobody planned are said too."""
    assert kinds(fake_run([FakePass("recompute", STEADY)], planned={"recompute/trace/replay/1": 0})) == {"rows"}


def test_state_not_proved() -> None:
    """A failed proof concerns its arm and workload, and says what was found."""
    proof = {
        "arm": "host",
        "workload": "trace",
        "repeat": 0,
        "kind": "warm",
        "proved": False,
        "detail": "3 of 5 chunks",
    }
    run = fake_run([FakePass("host", STEADY)], state_proofs=[proof])
    (scoped,) = (s for s in find_caveats(run) if s.caveat.kind == "state_not_proved")
    assert scoped.by == {"arm": "host", "workload": "trace"}
    assert "3 of 5 chunks" in scoped.caveat.text


def test_state_not_checked() -> None:
    """A proof that nobody made proves nothing."""
    assert kinds(fake_run([FakePass("host", STEADY)], state_proofs=[])) == {"state_not_checked"}


def test_unstable() -> None:
    """A replay whose TTFT climbs through all thirds is unstable, and the caveat concerns that pass alone."""
    run = fake_run([FakePass("valkey-1", [float(n) for n in range(100, 400)])])
    (scoped,) = (s for s in find_caveats(run) if s.caveat.kind == "unstable")
    assert scoped.by == {"arm": "valkey-1", "workload": "trace", "pass": "replay"}


def test_closed_loop_is_never_unstable() -> None:
    """Hits first and misses last is the order of a reverse pass, not a queue."""
    assert kinds(fake_run([FakePass("recompute", [float(n) for n in range(100, 400)], name="reverse")])) == set()


@settings(deadline=None)
@given(medians=st.lists(st.floats(0.1, 1e3), min_size=3, max_size=3))
def test_rising_means_each_third(medians: list[float]) -> None:
    """Rising implies a last third over 1.5 times the first, and never holds both ways."""
    if is_rising(medians):
        assert medians[2] > 1.5 * medians[0]
        assert not is_rising(medians[::-1])


def test_rising_needs_all_thirds() -> None:
    """One slow third in the middle is a burst, not a trend."""
    assert is_rising([2.35, 2.94, 3.70])
    assert not is_rising([1.0, 9.0, 8.0])
    assert not is_rising([1.0, 1.2, 1.4])
    assert not is_rising([])


def test_few_requests() -> None:
    """The p99 of fewer than 100 requests is said to be about the slowest; of none, nothing is."""
    assert kinds(fake_run([FakePass("recompute", [10.0] * 99)])) == {"few_requests"}
    assert "few_requests" not in kinds(fake_run([FakePass("recompute", [None] * 5)]))


@pytest.mark.parametrize(("status", "expected"), [("complete", set()), ("running", set()), ("partial", {"status"})])
def test_status(status: str, expected: set[str]) -> None:
    """A run that was cut short says so."""
    assert kinds(fake_run([FakePass("recompute", STEADY)], status=status)) == expected


def test_known_caveats_travel() -> None:
    """What the run itself noted is kept, first."""
    known = {"kind": "probe", "text": "R varied by 12 %", "remedy": "close other programs"}
    first = find_caveats(fake_run([FakePass("recompute", STEADY)], caveats=[known]))[0]
    assert (first.caveat.kind, first.caveat.text, first.caveat.remedy) == tuple(known.values())


def test_what_the_run_noted_of_one_arm_concerns_that_arm() -> None:
    """A caveat whose text begins with an arm's name travels with its numbers only; any other with all."""
    texts = ("remote: its log was cut", "elsewhere: a disk was full", "remote was slow")
    notes = [{"kind": f"note-{at}", "text": text, "remedy": ""} for at, text in enumerate(texts)]
    run = fake_run([FakePass("recompute", STEADY), FakePass("remote", STEADY)], caveats=notes)
    scopes = {one.caveat.text: dict(one.by) for one in find_caveats(run) if one.caveat.kind.startswith("note")}
    assert scopes == {texts[0]: {"arm": "remote"}, texts[1]: {}, texts[2]: {}}
