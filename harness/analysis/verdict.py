"""The verdict: one word for machines and one sentence for people, in which every number is a finding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.contest import Contest, Side, Standing, find_contest, shown, standing, word
from harness.analysis.finding import Finding, ScopedCaveat
from harness.analysis.measured import OPEN_LOOP_PASS
from harness.analysis.wording import count, digits, rate, times_ms
from harness.model.verdict import Word

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
class Verdict:
    """`word` is what to do, `sentence` says why. docs/method.md has the rule.

    `answers` are there where a cost model gave them (analysis/forecast.py); a measured run's sentence has its numbers.
    """

    word: Word
    sentence: str
    answers: tuple[Answer, ...] = ()


def judge(findings: Sequence[Finding], caveats: Sequence[ScopedCaveat], meta: Mapping[str, Any]) -> Verdict:
    """Whether the remote tier pays, by the trace replay (else the last measured pass). A missing arm is no error."""
    contest = find_contest(findings, caveats, meta)
    return Verdict(word(contest), _sentence(contest, meta))


def _sentence(contest: Contest | None, meta: Mapping[str, Any]) -> str:
    if contest is None:
        return "No measured pass has any request, so this run says nothing about a remote tier."
    attached = ((meta.get("spec") or {}).get("engine") or {}).get("backend") == "attach"
    where = f"On {'these servers' if attached else 'this machine'}, in {contest.workload}/{contest.pass_name},"
    if not contest.remotes:
        return f"{where} no arm has a remote tier (`valkey`), so this run cannot say whether one pays."
    if contest.recompute is None:
        return f"{where} no arm that recomputes (one without `lmcache`) was measured: there is nothing to compare with."
    clauses = [_clause(remote, contest.recompute, _end(contest)) for remote in contest.remotes]
    return f"{where} {'; '.join([*clauses, *_about_recompute(contest.recompute, _end(contest))])}."


def _end(contest: Contest) -> str:
    return "trace" if contest.pass_name == OPEN_LOOP_PASS else "pass"


def _clause(remote: Side, recompute: Side, end: str) -> str:
    stand = standing(remote, recompute)
    remarks = [_p99(remote, recompute)]
    if remote.rising:
        remarks.append(f"it is still rising when the {end} ends")
    remarks += _failed(remote)
    if remote.used_remote is False:
        from_host = "" if remote.value("external_prefix_cache_hits") == 0 else ": all hits are of LMCache's host memory"
        remarks.append(f"not one token came from the remote tier{from_host}")
    doubts = [*remote.blockers[:1], *recompute.blockers[:1]]
    remarks += [f"it cannot be judged ({doubt})" for doubt in doubts]
    return f"{_subject(remote)} {' and '.join(remarks)}: {_ADVICE[stand]}"


def _subject(remote: Side) -> str:
    """The arm, and what stands behind it where the run knows: instances, bandwidth of each, all together over B*."""
    several = remote.instances > 1
    text = f"{count(remote.instances)} Valkey{'s' if several else ''}"
    link, over = remote.value("link_bytes_per_s"), remote.value("bandwidth_over_bstar")
    if link is not None:
        text += f" at {rate(link)}{' each' if several else ''}"
    if over is not None:
        text += f", {digits(over, 2)} B*{' together' if several else ''}"
    return f"{remote.arm} ({text})"


def _p99(remote: Side, recompute: Side) -> str:
    own, base, ratio = remote.value("ttft_p99"), recompute.value("ttft_p99"), remote.numbers.get("ttft_p99_ratio")
    if own is None or base is None or ratio is None:
        return "has no TTFT that was measured"
    pair = " against ".join(times_ms([own, base]))
    interval = f"95 % interval {_ratio(ratio.low)} to {_ratio(ratio.high)}" if ratio.low is not None else "no interval"
    median = remote.value("ttft_p50_ratio")
    evidence = f"({pair}; {interval}; p50 {_ratio(median)} times)"
    verb = {-1: "cuts p99 TTFT to", 1: "makes p99 TTFT"}.get(shown(ratio))
    if verb is None:
        return f"is not shown to differ from recompute in p99 TTFT, {_ratio(ratio.value)} times {evidence}"
    return f"{verb} {_ratio(ratio.value)} times recompute's {evidence}"


def _ratio(value: float | None) -> str:
    """Two digits, or three where two would read as 1.0 and hide on which side of it the value lies."""
    if value is None:
        return "unknown"
    return digits(value, 3) if 0.9 < value < 1.1 else digits(value, 2)


def _failed(side: Side) -> list[str]:
    failures, planned = side.value("failures"), side.value("requests")
    return [f"{failures:.0f} of its {planned:.0f} requests failed"] if failures else []


def _about_recompute(recompute: Side, end: str) -> list[str]:
    rising = [f"recompute's own TTFT is still rising when the {end} ends"] if recompute.rising else []
    return rising + [f"of recompute, {text}" for text in _failed(recompute)]
