"""Known faults of LMCache and its clients, by name: how each shows in the log, what it means, what to do."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.records import LoadEvent

_SHOWN = 3
_RUN_OF_TIMEOUTS = 3

_TROUBLE = (
    *("fail", "error", "still waiting", "double ", "exception", "not found", "does not answer", "timed out", "timeout"),
    *("time out", "reject", "cancel", "underflow", "mismatch", "unhealthy", "cleaning up in-flight", "under pressure"),
    *(
        "differ across",
        "bypassing",
        "no eviction candidates",
        "memory is available",
        "connection is none",
        "invalidated",
    ),
)
"""What a warning says when something did not work, in small letters; a healthy server's warnings have none of it."""


@dataclass(frozen=True, slots=True)
class KnownFault:
    """A fault by its `name`: the lines that show it, what they mean, what to do about it."""

    name: str
    lines: re.Pattern[str]
    meaning: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was found: its name, what it means, what to do, how many lines show it, and the first of them."""

    name: str
    meaning: str
    remedy: str
    count: int
    evidence: tuple[str, ...]

    @property
    def text(self) -> str:
        """The fault in one sentence."""
        return f"{self.meaning} ({self.count:,} {'line' if self.count == 1 else 'lines'} of its log)"


LOOKUP_TIMED_OUT = "lookup_timed_out"
COMPLETIONS_LOST = "completions_lost"

KNOWN_FAULTS = (
    KnownFault(
        LOOKUP_TIMED_OUT,
        re.compile(
            r"still waiting for async lookup after \d+|(?:LOOKUP|QUERY_PREFETCH_STATUS) to \S+ timed out|"
            r"lookup.{0,40}tim(?:ed |e)?out",
            re.IGNORECASE,
        ),
        "lookups waited out their limit, and their prompts were computed",
        "raise lookup_timeout_ms, or find out why the remote tier is that slow",
    ),
    KnownFault(
        "load_timed_out",
        re.compile(r"get blocking timeout, trigger cancel"),
        "loads waited out their limit and were given up",
        "raise blocking_timeout_secs, or find out why the remote tier is that slow",
    ),
    KnownFault(
        "retrieved_fewer_than_expected",
        re.compile(
            r"number of retrieved tokens is less than the expected|Num retrieved tokens: \d+, num expected tokens|"
            r"failed to load \d+ tokens across|Some keys not found during retrieve|but it can't be retrieved"
        ),
        "LMCache loaded fewer tokens than its lookup had promised",
        "was the remote tier emptied, or did it evict? See kv_load_failure_policy for what vLLM does then",
    ),
    KnownFault(
        "l1_out_of_memory",
        re.compile(
            r"cpu memory (?:is )?under pressure|Failed to (?:batched )?allocate|[Nn]o eviction candidates found|"
            r"no(?: enough)? memory is available|l1_oom"
        ),
        "LMCache's host memory was full: what did not fit was not stored or not loaded",
        "give LMCache more host memory (l1), or send fewer requests at a time",
    ),
    KnownFault(
        "unhealthy_backend_skipped",
        re.compile(r"unhealthy|Connection is None in"),
        "LMCache took its backend for unhealthy and went without it, or vLLM its LMCache",
        "see the backend's own log; hits from then on are missing",
    ),
    KnownFault(
        "ranks_differ",
        re.compile(r"differ across \(TP and PP\) ranks|hit mismatch across servers"),
        "the ranks found different numbers of tokens, and the smallest was taken",
        "is one of several remote instances evicting, or lost?",
    ),
    KnownFault(  # its own valkey connector does it too: cache_engine.py, `retrieve` frees, then `cleanup_memory_objs`
        "double_free",
        re.compile(r"Double (?:free|unpin) occurred"),
        "LMCache freed memory twice, as it does (0.5.5, 0.5.6) with every chunk that it loads asynchronously inside "
        "the engine, whatever the client of its remote tier",
        "harmless where no host tier keeps the chunk (skip_l1): it is free already; else see used_after_free",
    ),
    KnownFault(
        "used_after_free",
        re.compile(r"invalidated MemoryObj"),
        "LMCache used memory that it had freed: its host tier lists chunks that are gone, and the engine dies of it",
        "with loads: async write store_policy: skip_l1, or write loads: sync",
    ),
    KnownFault(  # https://github.com/LMCache/LMCache/issues/3685
        "asked_after_timeout",
        re.compile(r"KeyError: '(?:\d+_)?(?:chat)?cmpl-"),
        "LMCache was asked again about a lookup that had timed out, raised a KeyError, and the engine died of it",
        "raise lookup_timeout so that no lookup reaches it, or write loads: sync",
    ),
    KnownFault(  # https://github.com/vllm-project/vllm/issues/49089
        "failed_for_its_load",
        re.compile(r"Failing \d+ request\(s\) due to KV load failure"),
        "vLLM failed requests whose KV could not be loaded; with LMCache beside the engine (vLLM 0.31, LMCache 0.5.5) "
        "the engine dies of it: the connector reports a dead request once more, and the scheduler knows it no longer",
        "write kv_load_failure_policy: recompute into vLLM's --kv-transfer-config, and see why the load failed",
    ),
    KnownFault(
        "computed_for_its_load",
        re.compile(r"Recovered from KV load failure|Bypassing LMCache for request"),
        "KV that a lookup had promised could not be loaded, and its prompts were computed",
        "see what LMCache and its remote tier say of that moment: a server that hung, or was lost?",
    ),
    KnownFault(
        "store_failed",
        re.compile(r"Store task \d+ .*failed|Put task failed|Cannot store keys|Failed to submit store task"),
        "KV could not be stored, and will not hit",
        "see the remote tier's log: is it full, or lost?",
    ),
)


def is_failure(level: str, text: str) -> bool:
    """Whether a message tells of a failure: any error, or a warning that something did not work."""
    if level == "WARNING":
        small = text.lower()
        return any(word in small for word in _TROUBLE)
    return level in {"ERROR", "CRITICAL"}


def fault_of(text: str) -> KnownFault | None:
    """The known fault that a message shows; None for any other trouble."""
    return next((fault for fault in KNOWN_FAULTS if fault.lines.search(text)), None)


def find_faults(events: Sequence[LoadEvent]) -> tuple[Fault, ...]:
    """The known faults among the events of one arm, in order of their first line; other failures are one of their own.

    `completions_lost`: lookups time out one after another, and after the first of them none is answered any more and
    nothing is loaded, as when a client of the remote tier has stopped to hand on what completes.
    """
    found: dict[str, list[LoadEvent]] = {}
    known: dict[str, KnownFault] = {}
    for event in events:
        if event.kind == "failure":
            fault = fault_of(event.line)
            name = fault.name if fault is not None else "other_failures"
            found.setdefault(name, []).append(event)
            if fault is not None:
                known[name] = fault
    faults = [_fault(name, known.get(name), lines) for name, lines in found.items()]
    lost = _lost(events, found.get(LOOKUP_TIMED_OUT, []))
    return (*faults, *lost)


def file_faults(cut: Sequence[str], starts: Sequence[str]) -> tuple[Fault, ...]:
    """What is wrong with a log file itself: lines that could not be made whole, and more than one server writing it."""
    faults: list[Fault] = []
    if cut:
        meaning, remedy = "lines about KV moving were cut, and are in no table", "let each process write its own file"
        faults.append(Fault("cut_lines", meaning, remedy, len(cut), tuple(cut[:_SHOWN])))
    if len(starts) > 1:
        meaning = "more than one LMCache server wrote this file"
        remedy = "let each server write its own file: lines without a request's id may be another server's"
        faults.append(Fault("two_writers", meaning, remedy, len(starts), tuple(starts[:_SHOWN])))
    return tuple(faults)


def _fault(name: str, known: KnownFault | None, lines: Sequence[LoadEvent]) -> Fault:
    if known is None:
        return Fault(name, "LMCache reported failures", "see its log", len(lines), _evidence(lines))
    return Fault(name, known.meaning, known.remedy, len(lines), _evidence(lines))


def _lost(events: Iterable[LoadEvent], timeouts: Sequence[LoadEvent]) -> tuple[Fault, ...]:
    if len(timeouts) < _RUN_OF_TIMEOUTS:
        return ()
    first = timeouts[0].t_unix_ns
    answered = any(
        event.t_unix_ns > first
        and (event.kind in {"load", "prefetch"} or (event.kind == "lookup" and event.hit_tokens))
        for event in events
    )
    if answered:
        return ()
    meaning = f"after the first lookup that timed out none of {len(timeouts)} was answered: completions are lost"
    remedy = "a client of the remote tier hangs: restart it, or use another one (see docs/method.md)"
    return (Fault(COMPLETIONS_LOST, meaning, remedy, len(timeouts), _evidence(timeouts)),)


def _evidence(lines: Sequence[LoadEvent]) -> tuple[str, ...]:
    return tuple(f"{event.file}:{event.line_no}: {event.line.strip()[:300]}" for event in lines[:_SHOWN])
