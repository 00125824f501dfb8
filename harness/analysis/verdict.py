"""The verdict: one word for machines, one sentence for people, and a line an arm; every number in it is a finding."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.contest import Contest, Side, Standing, find_contest, shown, standing, word
from harness.analysis.finding import Finding, ScopedCaveat
from harness.analysis.measured import OPEN_LOOP_PASS
from harness.analysis.wording import count, digits, rate, times_ms
from harness.model.verdict import Word

_BESIDE = "for comparison"
_ADVICE = {
    Standing.BETTER: "turn it on",
    Standing.WORSE: "do not turn it on",
    Standing.UNCLEAR: "this run is no ground to turn it on",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the three questions that decide, and what the numbers say to it."""

    question: str
    text: str


@dataclass(frozen=True, slots=True)
class ArmLine:
    """One arm beside recompute: what to do with it, and what was seen of it."""

    arm: str
    advice: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """`word` is what to do, `sentence` says it and the main reason. docs/method.md has the rule.

    `arms` are the evidence of a measured run, an arm a line, from the pass that was `judged` (workload/pass). `answers`
    are there where a cost model gave them (analysis/forecast.py).
    """

    word: Word
    sentence: str
    answers: tuple[Answer, ...] = ()
    arms: tuple[ArmLine, ...] = ()
    judged: str = ""


def judge(findings: Sequence[Finding], caveats: Sequence[ScopedCaveat], meta: Mapping[str, Any]) -> Verdict:
    """Whether the remote tier pays, by the trace replay (else the last measured pass). A missing arm is no error."""
    contest = find_contest(findings, caveats, meta)
    if contest is None:
        return Verdict(
            Word.UNDECIDED, "No measured pass has any request, so this run says nothing about a remote tier."
        )
    judged = f"{contest.workload}/{contest.pass_name}"
    attached = ((meta.get("spec") or {}).get("engine") or {}).get("backend") == "attach"
    sentence = _sentence(contest, f"in {judged} on {'these servers' if attached else 'this machine'}")
    return Verdict(word(contest), sentence, arms=tuple(_lines(contest)), judged=judged)


def _sentence(contest: Contest, where: str) -> str:
    if not contest.remotes:
        return f"No arm has a remote tier (`valkey`) {where}, so this run cannot say whether one pays."
    if contest.recompute is None:
        return f"No arm that recomputes (one without `lmcache`) was measured {where}: there is nothing to compare with."
    return f"{_lead(contest, contest.recompute, word(contest))}, {where}."


def _lead(contest: Contest, recompute: Side, decided: Word) -> str:
    """What to do, and the arm that shows it: the best of those that are better, or else of all."""
    stands = {side.arm: standing(side, recompute) for side in contest.remotes}
    better = [side for side in contest.remotes if stands[side.arm] is Standing.BETTER]
    shows = [side for side in better if decided is not Word.ON or side.instances == 1] or contest.remotes
    best = min(shows, key=lambda side: (bool(side.faults), side.value("ttft_p99_ratio") or math.inf))
    main = _briefly(best, recompute)
    match decided:
        case Word.ON:
            return f"Turn it on: {main}"
        case Word.ON_WITH_SHARDING:
            one = next((side for side in contest.remotes if side.instances == 1), None)
            also = "" if one is None else f", while {_briefly(one, recompute)}"
            limit = ", not with one" if one is not None and stands[one.arm] is Standing.WORSE else ""
            return f"Turn it on with several instances{limit}: {main}{also}"
        case Word.OFF:
            others = ", and no other arm with Valkey does better" if len(contest.remotes) > 1 else ""
            return f"Do not turn it on: {main}{others}"
        case _:
            whole = f"{best.arm} ({_instances(best)}) {_p99(best, recompute)}"
            of_recompute = [f"of recompute, {text}" for text in _failed(recompute)]
            remarks = [whole, *_remarks(best, recompute, _end(contest)), *of_recompute]
            return f"This run is no ground to turn it on: {' and '.join(remarks)}"


def _briefly(side: Side, recompute: Side) -> str:
    return f"{side.arm} ({_instances(side)}) {_p99(side, recompute, brief=True)}"


def _lines(contest: Contest) -> Iterator[ArmLine]:
    recompute, end = contest.recompute, _end(contest)
    if recompute is None:
        return
    for side in contest.remotes:
        text = " and ".join([_p99(side, recompute), *_remarks(side, recompute, end)])
        faults = f"; LMCache's log tells of faults: {', '.join(side.faults)}" if side.faults else ""
        yield ArmLine(side.arm, _ADVICE[standing(side, recompute)], f"{_tier(side)}: {text}{faults}")
    if contest.host is not None:
        yield ArmLine(contest.host.arm, _BESIDE, f"host memory without Valkey: {_p99(contest.host, recompute)}")
    own = [f"its own TTFT is still rising when the {end} ends"] if recompute.rising else []
    own += _failed(recompute)
    if own:
        yield ArmLine(recompute.arm, _BESIDE, " and ".join(own))


def _remarks(side: Side, recompute: Side, end: str) -> list[str]:
    """What else there is to be said of an arm, besides its p99."""
    remarks = [f"is still rising when the {end} ends"] if side.rising else []
    remarks += _failed(side)
    if side.used_remote is False:
        from_host = "" if side.value("external_prefix_cache_hits") == 0 else ": all hits are of LMCache's host memory"
        remarks.append(f"not one token came from the remote tier{from_host}")
    doubts = [*side.blockers[:1], *recompute.blockers[:1]]
    return remarks + [f"it cannot be judged ({doubt})" for doubt in doubts]


def _end(contest: Contest) -> str:
    return "trace" if contest.pass_name == OPEN_LOOP_PASS else "pass"


def _instances(side: Side) -> str:
    return f"{count(side.instances)} Valkey{'s' if side.instances > 1 else ''}"


def _tier(side: Side) -> str:
    """What stands behind the arm, where the run knows: instances, bandwidth of each, all together over B*."""
    several = side.instances > 1
    text = _instances(side)
    link, over = side.value("link_bytes_per_s"), side.value("bandwidth_over_bstar")
    if link is not None:
        text += f" at {rate(link)}{' each' if several else ''}"
    if over is not None:
        text += f", {digits(over, 2)} B*{' together' if several else ''}"
    return text


def _p99(side: Side, recompute: Side, *, brief: bool = False) -> str:
    own, base, ratio = side.value("ttft_p99"), recompute.value("ttft_p99"), side.numbers.get("ttft_p99_ratio")
    if own is None or base is None or ratio is None:
        return "has no TTFT that was measured"
    evidence = " against ".join(times_ms([own, base]))
    if not brief:
        interval = (
            f"95 % interval {_ratio(ratio.low)} to {_ratio(ratio.high)}" if ratio.low is not None else "no interval"
        )
        evidence += f"; {interval}; p50 {_ratio(side.value('ttft_p50_ratio'))} times"
    verb = {-1: "cuts p99 TTFT to", 1: "makes p99 TTFT"}.get(shown(ratio))
    if verb is None:
        return f"is not shown to differ from recompute in p99 TTFT, {_ratio(ratio.value)} times ({evidence})"
    return f"{verb} {_ratio(ratio.value)} times recompute's ({evidence})"


def _ratio(value: float | None) -> str:
    """Two digits, or three where two would read as 1.0 and hide on which side of it the value lies."""
    if value is None:
        return "unknown"
    return digits(value, 3) if 0.9 < value < 1.1 else digits(value, 2)


def _failed(side: Side) -> list[str]:
    failures, planned = side.value("failures"), side.value("requests")
    return [f"{failures:.0f} of its {planned:.0f} requests failed"] if failures else []
