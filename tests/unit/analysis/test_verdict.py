"""The verdict: one word, one sentence."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis import Verdict, Word, summarise
from tests.fakes.runs import FakePass, fake_run

RANDOM = np.random.default_rng(7)
RECOMPUTE = tuple(float(ms) for ms in RANDOM.gamma(9, 25, size=150))
HITS = {"external_prefix_cache_hits": 1280}
ARMS = {
    "valkey-1": {"link_bytes_per_s": 12.8e6, "instances": 1, "rho": 1.13},
    "valkey-4": {"link_bytes_per_s": 40e6, "instances": 4, "rho": 0.09},
}
PROBE = {"prefill_tokens_per_s": 9200.0, "kv_bytes_per_token": 4096, "bstar_bytes_per_s": 37.7e6}
WORTH = (Word.OFF, Word.UNDECIDED, Word.ON_WITH_SHARDING, Word.ON)


def times(factor: float, values: Sequence[float | None] = RECOMPUTE) -> list[float | None]:
    """The same requests, each `factor` times as slow."""
    return [None if value is None else value * factor for value in values]


def climbing(factor: float) -> list[float | None]:
    """Requests that are `factor` times as slow, and three times that at the end."""
    return [value * factor * (1 + 2 * seq / len(RECOMPUTE)) for seq, value in enumerate(RECOMPUTE)]


def verdict(remotes: dict[str, list[float | None]], **meta: Any) -> Verdict:
    """The verdict on these remote arms beside recompute, each with external hits."""
    passes = [FakePass("recompute", RECOMPUTE), *(FakePass(arm, ms, counters=HITS) for arm, ms in remotes.items())]
    return summarise(fake_run(passes, arms=ARMS, probe=PROBE, **meta), resamples=40).verdict


@pytest.mark.parametrize(
    ("one", "four", "word"),
    [
        (8.0, 0.5, "on_with_sharding"),
        (0.5, 0.4, "on"),
        (8.0, 2.0, "off"),
        (8.0, 1.0, "undecided"),
        (1.0, 0.5, "on_with_sharding"),
    ],
)
def test_words(one: float, four: float, word: str) -> None:
    """On if one instance wins, on with sharding if only several do, off if all lose, else undecided."""
    assert verdict({"valkey-1": times(one), "valkey-4": times(four)}).word == word


def test_the_incident_in_one_sentence() -> None:
    """The sentence says what to do, the arm that shows it, what one instance does instead, and where that was seen."""
    sentence = verdict({"valkey-1": climbing(8), "valkey-4": times(0.5)}).sentence
    begin, _, instead = sentence.partition(", while ")
    assert begin.startswith(
        "Turn it on with several instances, not with one: valkey-4 (four Valkeys) cuts p99 TTFT to 0.50"
    )
    assert instead.startswith("valkey-1 (one Valkey) makes p99 TTFT ")
    assert instead.endswith("), in trace/replay on this machine.")


def test_the_incident_arm_by_arm() -> None:
    """Each arm has a line: its bandwidth, B/B*, the ratio with its interval, both times, that it climbs, what to do."""
    one, four, host = verdict({"valkey-1": climbing(8), "valkey-4": times(0.5), "host": times(0.2)}).arms
    assert (one.arm, one.advice) == ("valkey-1", "do not turn it on")
    assert one.text.startswith("one Valkey at 12.8 MB/s, 0.34 B*: makes p99 TTFT ")
    assert one.text.endswith(" and is still rising when the trace ends")
    assert (four.arm, four.advice) == ("valkey-4", "turn it on")
    assert four.text.startswith(
        "four Valkeys at 40.0 MB/s each, 4.2 B* together: cuts p99 TTFT to 0.50 times recompute's"
    )
    assert "; 95 % interval 0.50 to 0.50; p50 0.50 times)" in four.text
    assert (host.arm, host.advice) == ("host", "for comparison")
    assert "host memory without Valkey: cuts p99 TTFT to 0.20 times" in host.text


def test_an_arm_with_faults_is_not_the_one_that_is_named() -> None:
    """Of two arms that are better the lead names the one whose log tells of no fault; the other's line tells."""
    fault = {"kind": "double_free", "text": "freed twice", "arm": "valkey-8", "evidence": ["log:1: Double free"]}
    judged = verdict({"valkey-4": times(0.5), "valkey-8": times(0.4)}, caveats=[fault])
    assert "valkey-4 (four Valkeys) cuts" in judged.sentence
    assert judged.arms[1].text.endswith("; LMCache's log tells of faults: double_free")


@pytest.mark.parametrize(("one", "limit"), [(8.0, ", not with one"), (1.0, "")])
def test_not_with_one_only_where_that_is_shown(one: float, limit: str) -> None:
    """One instance is advised against only if it is shown to be worse."""
    shuffled = [float(ms) for ms in np.random.default_rng(8).permutation(RECOMPUTE)]
    sentence = verdict({"valkey-1": times(one, shuffled), "valkey-4": times(0.5)}).sentence
    assert sentence.startswith(f"Turn it on with several instances{limit}: valkey-4")


def test_off_names_the_nearest() -> None:
    """If every arm loses, the one that loses least is named, so that nobody hopes for another."""
    sentence = verdict({"valkey-1": times(8), "valkey-4": times(2)}).sentence
    assert sentence.startswith("Do not turn it on: valkey-4 (four Valkeys) makes p99 TTFT 2.0 times recompute's")
    assert "no other arm with Valkey does better" in sentence


def test_every_number_is_a_finding() -> None:
    """The ratio in the sentence is the finding's, and follows the data."""
    run = fake_run([FakePass("recompute", RECOMPUTE), FakePass("valkey-1", times(3.7), counters=HITS)])
    summary = summarise(run, resamples=40)
    p99 = next(f.estimate.value for f in summary.findings if f.name == "ttft_p99" and f.by["arm"] == "valkey-1")
    assert "makes p99 TTFT 3.7 times recompute's" in summary.verdict.sentence
    assert f"({p99 / 1000:.1f} s against" in summary.verdict.sentence


def test_not_shown_to_differ() -> None:
    """An interval that holds 1 is no difference, and the sentence says it in these words."""
    shuffled = list(np.random.default_rng(8).permutation(RECOMPUTE))
    same = verdict({"valkey-1": [float(ms) for ms in shuffled]})
    assert same.word == "undecided"
    assert "is not shown to differ from recompute in p99 TTFT" in same.sentence


def test_slower_median_is_no_win() -> None:
    """A p99 bought with a slower median decides nothing: the reader must choose."""
    narrow = [float(np.percentile(RECOMPUTE, 75))] * len(RECOMPUTE)
    assert verdict({"valkey-1": [*narrow]}).word == "undecided"


def test_a_growing_queue_is_no_win() -> None:
    """An arm that is faster so far, but climbs, is not turned on."""
    assert verdict({"valkey-1": climbing(0.1)}).word == "undecided"


def test_no_hits_is_no_win() -> None:
    """A tier from which no token came cannot be why an arm is faster."""
    passes = [
        FakePass("recompute", RECOMPUTE),
        FakePass("valkey-1", times(0.5), counters={"external_prefix_cache_hits": 0}),
    ]
    judged = summarise(fake_run(passes), resamples=40).verdict
    assert judged.word == "undecided"
    assert "not one token came from the remote tier" in judged.sentence


@pytest.mark.parametrize(
    ("counters", "lookup", "wins"),
    [
        ({}, None, True),  # nobody tells: a caveat says so
        ({"valkey_get_calls": 7}, None, True),
        ({"valkey_get_calls": 0}, None, False),
        ({"valkey_get_calls": 7}, "l1", False),  # others asked that Valkey
        ({}, "l1", False),
        ({"valkey_get_calls": 0}, "l2", True),
    ],
)
def test_hits_of_host_memory_are_no_win_of_the_remote_tier(
    counters: dict[str, int], lookup: str | None, wins: bool
) -> None:
    """LMCache's log says where hits came from, else Valkey's own count."""
    columns = {} if lookup is None else {"lookup": lookup}
    arm = FakePass("valkey-1", times(0.5), counters=HITS | counters, columns=columns)
    found = summarise(fake_run([FakePass("recompute", RECOMPUTE), arm], arms=ARMS), resamples=40).verdict
    assert found.word == ("on" if wins else "undecided")
    assert ("LMCache's host memory" in found.sentence) is not wins


def test_failures_do_not_win() -> None:
    """The arm that failed more requests cannot be the faster one, whichever it is."""
    assert verdict({"valkey-1": [None, None, *times(0.5)[2:]]}).word == "undecided"
    passes = [FakePass("recompute", [None, *RECOMPUTE[1:]]), FakePass("valkey-1", times(2.0), counters=HITS)]
    judged = summarise(fake_run(passes), resamples=40).verdict
    assert judged.word == "undecided"
    assert "of recompute, 1 of its 150 requests failed" in judged.sentence


@pytest.mark.parametrize("factor", [0.5, 8.0])
@pytest.mark.parametrize("arm", ["recompute", "valkey-1"])
def test_unproved_state_decides_nothing(arm: str, factor: float) -> None:
    """If either side's caches were not as meant, the comparison is not judged, and the sentence says why."""
    proof = {"arm": arm, "workload": "trace", "repeat": 0, "kind": "warm", "proved": False, "detail": "no hit"}
    judged = verdict({"valkey-1": times(factor)}, state_proofs=[proof])
    assert judged.word == "undecided"
    assert "it cannot be judged" in judged.sentence


def test_missing_rows_decide_nothing() -> None:
    """An arm that was cut short is not compared with one that was not."""
    planned = {"recompute/trace/replay/0": 150, "valkey-1/trace/replay/0": 200}
    assert verdict({"valkey-1": times(8)}, planned=planned).word == "undecided"


@pytest.mark.parametrize(
    ("passes", "says"),
    [
        ([], "No measured pass"),
        ([FakePass("recompute", RECOMPUTE)], "No arm has a remote tier"),
        ([FakePass("valkey-1", RECOMPUTE)], "No arm that recomputes"),
        ([FakePass("recompute", [None] * 9), FakePass("valkey-1", RECOMPUTE)], "No arm that recomputes"),
        ([FakePass("recompute", RECOMPUTE), FakePass("valkey-1", [None] * 9)], "has no TTFT that was measured"),
        ([FakePass("recompute", [5.0]), FakePass("valkey-1", [5.0])], "no interval"),
    ],
)
def test_missing_arms(passes: list[FakePass], says: str) -> None:
    """What is missing is said, and nothing is decided."""
    judged = summarise(fake_run(passes), resamples=20).verdict
    assert judged.word == "undecided"
    assert says in judged.sentence


def test_without_a_trace_the_last_pass_is_judged() -> None:
    """Documents alone are judged by their last pass; with a trace, the trace is, wherever it stands."""
    ten_docs = [
        FakePass(arm, values, workload="ten-docs", name=name, counters=HITS)
        for arm, values in (("recompute", RECOMPUTE), ("valkey-1", times(0.1)))
        for name in ("first", "again")
    ]
    replay = [FakePass("recompute", RECOMPUTE), FakePass("valkey-1", times(9), counters=HITS)]
    assert "in ten-docs/again on" in summarise(fake_run(ten_docs), resamples=20).verdict.sentence
    judged = summarise(fake_run([*replay, *ten_docs]), resamples=20).verdict
    assert judged.word == "off"
    assert "in trace/replay on" in judged.sentence
    assert judged.judged == "trace/replay"


@settings(deadline=None, max_examples=6)
@given(
    one=st.floats(0.2, 5),
    four=st.floats(0.2, 5),
    slower=st.floats(1, 4),
    which=st.sampled_from(["valkey-1", "valkey-4"]),
    seed=st.integers(0, 5),
)
def test_monotone_in_slowness(one: float, four: float, slower: float, which: str, seed: int) -> None:
    """A slower remote tier never turns off into on, nor makes any verdict more favourable."""
    noise = np.random.default_rng(seed).gamma(9, 25, size=150)
    remotes = {"valkey-1": [float(ms) * one for ms in noise], "valkey-4": [float(ms) * four for ms in noise]}
    before = verdict(remotes).word
    after = verdict(remotes | {which: times(slower, remotes[which])}).word
    assert WORTH.index(after) <= WORTH.index(before)
