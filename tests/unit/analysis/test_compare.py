"""One arm against another."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis import ArmOf, Change, Comparison, compare
from harness.analysis.compare_json import comparison_json
from harness.errors import IncomparableError
from tests.fakes.runs import FakePass, fake_run

RANDOM = np.random.default_rng(3)
TRUTH = tuple(float(ms) for ms in RANDOM.gamma(9, 25, size=200))
META = {
    "spec": {"engine": {"model": "tiny", "block_size": 16, "extra_args": []}, "arms": []},
    "plans": {"trace/0": {"hash": "a"}},
    "versions": {"vllm": "0.31.0", "lmcache": "0.5.5", "kvreplay": "0.1.0"},
    "machine": {"processor": "one", "cores": 2},
}


def beside(a: list[float | None], b: list[float | None], **meta: object) -> Comparison:
    """Arm b beside arm a, in a run each; `meta` changes that of b."""
    runs = [fake_run([FakePass("arm", values)], **(META | changes)) for values, changes in ((a, {}), (b, meta))]
    return compare(ArmOf(runs[0], "arm", "A"), ArmOf(runs[1], "arm", "B"), resamples=200)


def noisy(factor: float) -> list[float | None]:
    """The same requests, each about `factor` times as slow."""
    return [value * factor * noise for value, noise in zip(TRUTH, RANDOM.lognormal(0, 0.05, size=200), strict=True)]


def test_a_shift_of_a_tenth_is_found() -> None:
    """200 pairs show that B takes 10 % more time, in the median and for most rows."""
    (part,) = beside(list(TRUTH), noisy(1.1)).passes
    assert (part.pairs, part.unpaired, part.failed) == (200, 0, 0)
    assert part.p50 is Change.HIGHER
    shares = [part.estimate(name) for name in ("lower_share", "higher_share", "wilcoxon_p")]
    assert shares[0] is not None
    assert shares[1] is not None
    assert shares[2] is not None
    assert shares[1].value > 0.9 > shares[0].value
    assert shares[2].value < 1e-6


def test_the_same_shows_nothing() -> None:
    """An arm beside itself differs in nothing: no difference, no p-value, ratios of 1."""
    (part,) = beside(list(TRUTH), list(TRUTH)).passes
    assert (part.p50, part.p99) == (Change.NOT_SHOWN, Change.NOT_SHOWN)
    assert part.estimate("wilcoxon_p") is None
    ratio = part.estimate("p99_ratio")
    assert ratio is not None
    assert [ratio.value, ratio.low, ratio.high] == [1, 1, 1]


def test_rows_are_paired_by_trace_row() -> None:
    """A run that planned its rows in another order is compared row by row; a row of only one side is counted."""
    forth, back = (fake_run([FakePass("arm", values)], **META) for values in ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]))
    turned = back.requests.set_column(back.requests.schema.get_field_index("row"), "row", [[2, 1, 7]])
    run = dataclasses.replace(back, requests=turned)
    (part,) = compare(ArmOf(forth, "arm", "A"), ArmOf(run, "arm", "B"), resamples=20).passes
    assert (part.pairs, part.unpaired) == (2, 2)
    difference = part.estimate("paired_difference_p50")
    assert difference is not None
    assert difference.value == 0


def test_a_pair_needs_both() -> None:
    """Rows that failed on either side are left out and counted; with no pair left there is nothing to compare."""
    (part,) = beside([1.0, None, 3.0, 4.0], [1.0, 2.0, None, 4.0]).passes
    assert (part.pairs, part.failed) == (2, 2)
    (none,) = beside([1.0, None], [None, 2.0]).passes
    assert (none.pairs, none.findings, none.p50) == (0, (), Change.NOT_SHOWN)


def test_p99_of_few_pairs_is_not_judged() -> None:
    """Fewer than 100 pairs have no p99 worth a word."""
    (part,) = beside([1.0] * 50, [2.0] * 50).passes
    assert (part.p50, part.p99) == (Change.HIGHER, None)


def test_most_moved() -> None:
    """The rows that moved most come first, with what both runs know of where the time went."""
    runs = [
        fake_run([FakePass("arm", values, columns={"load_ms": load})], **META)
        for values, load in (([1.0, 2.0, 3.0], 1.0), ([1.0, 52.0, 13.0], 50.0))
    ]
    (part,) = compare(ArmOf(runs[0], "arm", "A"), ArmOf(runs[1], "arm", "B"), resamples=20).passes
    assert [row.row for row in part.moved] == [1, 2, 0]
    assert part.moved[0].attribution["load_ms"] == (1.0, 50.0)
    assert "queue_ms" not in part.moved[0].attribution


@pytest.mark.parametrize(
    ("key", "meta"),
    [
        ("plan.trace/0", {"plans": {"trace/0": {"hash": "b"}}}),
        ("versions.lmcache", {"versions": {"vllm": "0.31.0", "lmcache": "0.5.6"}}),
        ("model.name", {"spec": {"engine": {"model": "other", "block_size": 16, "extra_args": []}, "arms": []}}),
        (
            "engine.extra_args",
            {"spec": {"engine": {"model": "tiny", "block_size": 16, "extra_args": ["-O0"]}, "arms": []}},
        ),
        ("machine.cores", {"machine": {"processor": "one", "cores": 4}}),
    ],
)
def test_refuses_and_names_the_key(key: str, meta: dict[str, object]) -> None:
    """Runs of another plan, version, model, engine flag or machine are not compared, unless the key is allowed."""
    a, b = fake_run([FakePass("arm", [1.0])], **META), fake_run([FakePass("arm", [2.0])], **(META | meta))
    with pytest.raises(IncomparableError, match=key) as caught:
        compare(ArmOf(a, "arm", "A"), ArmOf(b, "arm", "B"), resamples=20)
    assert f"--allow {key}" in caught.value.remedy
    for allow in (key, key.partition(".")[0]):
        allowed = compare(ArmOf(a, "arm", "A"), ArmOf(b, "arm", "B"), allow=[allow], resamples=20)
        assert [one.key for one in allowed.allowed] == [key]


def test_what_may_differ() -> None:
    """kvreplay's own version, and workloads that only one of the two ran, are no reason to refuse."""
    comparison = beside([1.0], [2.0], versions={**META["versions"], "kvreplay": "9"}, plans={})
    assert comparison.allowed == ()


def test_an_arm_that_is_not_there() -> None:
    """The error lists the arms there are."""
    run = fake_run([FakePass("host", [1.0])], **META)
    with pytest.raises(IncomparableError) as caught:
        compare(ArmOf(run, "host", "A"), ArmOf(run, "valkey-9", "B"))
    assert "host" in caught.value.remedy


def test_nothing_in_common() -> None:
    """Two arms that ran no common workload cannot be compared, and it says so."""
    a, b = (fake_run([FakePass("arm", [1.0], workload=name)], **META) for name in ("one", "two"))
    with pytest.raises(IncomparableError, match="no workload and pass in common"):
        compare(ArmOf(a, "arm", "A"), ArmOf(b, "arm", "B"))


@settings(deadline=None, max_examples=25)
@given(
    a=st.lists(st.none() | st.floats(0.1, 1e5), min_size=1, max_size=12),
    b=st.lists(st.none() | st.floats(0.1, 1e5), min_size=1, max_size=12),
)
def test_json_is_json_and_swaps(a: list[float | None], b: list[float | None]) -> None:
    """Whatever the values, the document is JSON, and B beside A is A beside B turned round."""
    forth, back = beside(a, b), beside(b, a)
    assert (
        json.loads(json.dumps(comparison_json(forth), allow_nan=False))["passes"][0]["pairs"] == forth.passes[0].pairs
    )
    for name in ("p50_difference", "paired_difference_p50"):
        one, other = forth.passes[0].estimate(name), back.passes[0].estimate(name)
        if one is not None and other is not None:
            assert math.isclose(one.value, -other.value, abs_tol=1e-6)
