"""Every check that a run is put to, with how it came out: held, broken, or not made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.analysis.checks import FEW, ONE_REPEAT, ROWS, STATE, STATE_UNCHECKED, STATUS
from harness.analysis.finding import ScopedCaveat
from harness.analysis.group_checks import FAILURES, LATE, SOURCES, TOKENS, UNSTABLE
from harness.records import Caveat

_PROMISES = {
    STATUS: "the run came to its end",
    "arm_failed": "every arm started and lived",
    ROWS: "there is a row for each planned request",
    STATE: "the caches were cold, or warm, as they should be at the start of each workload",
    STATE_UNCHECKED: "the caches' state was looked at before each workload",
    TOKENS: "the server counted the prompt tokens that were planned",
    SOURCES: "computed, local and external tokens add up to the prompts",
    FAILURES: "at most 0.1 % of the requests of a pass failed",
    LATE: "the client sent on time (p99 within 1 % of the median TTFT)",
    UNSTABLE: "response times were steady through every replay",
    FEW: "every p99 rests on 100 requests or more",
    ONE_REPEAT: "every arm ran more than once",
    "sampling_gaps": "every server answered every scrape",
    "lmcache_log": "LMCache's log could be read",
}


class Held(StrEnum):
    """How a check came out."""

    HELD = "held"
    BROKEN = "not held"


@dataclass(frozen=True, slots=True)
class ValidityCheck:
    """One promise, how it came out, and what was seen."""

    promise: str
    held: Held
    detail: str


def validity_checks(caveats: Sequence[ScopedCaveat]) -> tuple[ValidityCheck, ...]:
    """The promises of docs/method.md's caveats; those that were not kept come first."""
    found = [
        _check(promise, [one.caveat for one in caveats if one.caveat.kind == kind])
        for kind, promise in _PROMISES.items()
    ]
    found.append(_check("LMCache's logs tell of no fault", [one.caveat for one in caveats if one.caveat.evidence]))
    return tuple(sorted(found, key=lambda check: check.held is Held.HELD))


def state_proofs(meta: Mapping[str, Any]) -> tuple[ValidityCheck, ...]:
    """The proofs of the caches' state at the start of each workload, as the run recorded them; failed ones first."""
    found = []
    for proof in meta.get("state_proofs") or ():
        where = f"{proof['arm']}, {proof['workload']}, repeat {proof['repeat']}: caches {proof['kind']} at the start"
        found.append(ValidityCheck(where, Held.HELD if proof["proved"] else Held.BROKEN, str(proof["detail"])))
    return tuple(sorted(found, key=lambda check: check.held is Held.HELD))


def _check(promise: str, broken: Sequence[Caveat]) -> ValidityCheck:
    texts = dict.fromkeys(caveat.text for caveat in broken)
    return ValidityCheck(promise, Held.BROKEN if broken else Held.HELD, "; ".join(texts))
