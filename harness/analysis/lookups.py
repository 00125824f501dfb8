"""What became of LMCache's lookup for each request of one arm: its log's events joined to requests by request id."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.analysis.spans import Span, overlap_ns, shares_ns

Row = Mapping[str, Any]
_STAMP_NS = 2_000_000  # the log's stamps have milliseconds


class Lookup(StrEnum):
    """How a request's lookup ended. docs/method.md has the rules."""

    NO_LMCACHE = "no_lmcache"
    L1 = "l1"
    L2 = "l2"
    L1_AND_L2 = "l1_and_l2"
    HIT = "hit"
    MISSED = "missed"
    MISSED_INFERRED = "missed_inferred"
    MISSED_AGAINST_PLAN = "missed_against_plan"
    TIMED_OUT = "timed_out"
    NO_LOG = "no_log"
    NOT_SERVED = "not_served"


HITS = (Lookup.L1, Lookup.L2, Lookup.L1_AND_L2, Lookup.HIT)


@dataclass(slots=True)
class Loaded:
    """What LMCache did for one request. Times in ms, None where its log does not say; `computed` tokens the engine had.

    `need` are the tokens that LMCache was to supply, where a lookup line says so; `copied` those of its load line.
    """

    lookup: Lookup
    keys: int | None = None
    l1_keys: int | None = None
    l2_keys: int | None = None
    bytes: int | None = None
    hit: int | None = None
    computed: int | None = None
    need: int | None = None
    copied: int | None = None
    lookup_ms: float | None = None
    own_lookup_ms: float | None = None
    load_ms: float | None = None
    others_in_step_ms: float = 0.0
    in_step: bool = False


def look_up(requests: Sequence[Row], events: Sequence[Row], *, skew_ns: int = 0) -> list[Loaded]:
    """One `Loaded` for each request (rows of requests.parquet, one arm that has LMCache and a log that was read).

    `events` are that arm's rows of loads.parquet; `skew_ns` is taken off their stamps where they meet the client's.
    A prompt that nothing was found for leaves no line in multiprocess mode: that is inferred, and named so.
    """
    by_request: dict[str, list[Row]] = {}
    for event in events:
        if event["request_id"] is not None:
            by_request.setdefault(event["request_id"], []).append(event)
    in_process = any(event["kind"] == "lookup" for event in events)
    found = [_one(row, by_request.get(row["request_id"], []), in_process=in_process) for row in requests]
    if in_process:
        _loads_in_steps(requests, found, events, skew_ns)
    else:
        _link_shares(requests, found, by_request)
        _copies(requests, found, events, by_request, skew_ns)
    return found


def _one(row: Row, events: Sequence[Row], *, in_process: bool) -> Loaded:
    if row["first_token_ns"] is None:
        return Loaded(Lookup.NOT_SERVED)
    if in_process:
        return _in_process(row, events)
    prefetch = next((event for event in events if event["kind"] == "prefetch"), None)
    if prefetch is not None:
        l1, l2 = prefetch["l1_keys"] or 0, prefetch["l2_keys"] or 0
        where = Lookup.L1_AND_L2 if l1 and l2 else Lookup.L2 if l2 else Lookup.L1
        loaded = Loaded(where, l1 + l2, l1, l2, prefetch["bytes"], hit=prefetch["hit_tokens"])
        loaded.lookup_ms = prefetch["cost_ms"]
        return loaded
    if _timed_out(events):
        return Loaded(Lookup.TIMED_OUT)
    expected = row["predicted_cached_tokens"]
    return Loaded(Lookup.MISSED_AGAINST_PLAN if expected else Lookup.MISSED_INFERRED)


def _in_process(row: Row, events: Sequence[Row]) -> Loaded:
    """Lookup lines are there for misses too; the last one that has an answer counts."""
    answered = [event for event in events if event["kind"] == "lookup" and event["hit_tokens"] is not None]
    if not answered:
        return Loaded(Lookup.TIMED_OUT if _timed_out(events) else Lookup.NO_LOG)
    last = answered[-1]
    loads = _one_a_step([event for event in events if event["kind"] == "load" and event["cost_ms"] is not None])
    lookup = Lookup.HIT if last["hit_tokens"] else Lookup.TIMED_OUT if _timed_out(events) else Lookup.MISSED
    return Loaded(
        lookup,
        bytes=sum(event["bytes"] or 0 for event in loads) if loads else None,
        hit=last["hit_tokens"],
        computed=last["computed_tokens"],
        need=max(0, last["need_tokens"] or 0),
        copied=sum(event["tokens"] for event in loads) if loads else None,
        load_ms=sum(event["cost_ms"] for event in loads) if loads else None,
        in_step=True,
    )


def _timed_out(events: Iterable[Row]) -> bool:
    return any(event["kind"] == "failure" and "lookup" in event["line"].lower() for event in events)


def _one_a_step(loads: Sequence[Row]) -> list[Row]:
    """Every rank writes a line for the same load: the slowest of them is the one that the step waits for."""
    slowest: dict[Any, Row] = {}
    times: dict[Any, int] = {}
    for event in loads:
        place = event["rank"], event["pid"]
        times[place] = times.get(place, -1) + 1
        before = slowest.get(times[place])
        if before is None or event["cost_ms"] > before["cost_ms"]:
            slowest[times[place]] = event
    return list(slowest.values())


def _link_shares(requests: Sequence[Row], found: Sequence[Loaded], by_request: Mapping[str, Sequence[Row]]) -> None:
    """What of each lookup went into its own transfer: the remote tier serves all that load from it at once equally."""
    remote = [at for at, one in enumerate(found) if one.l2_keys]
    spans: list[Span] = []
    for at in remote:
        event = next(e for e in by_request[requests[at]["request_id"]] if e["kind"] == "prefetch")
        spans.append((event["t_unix_ns"] - round(event["cost_ms"] * 1e6), event["t_unix_ns"]))
    for at, share_ns in zip(remote, shares_ns(spans), strict=True):
        found[at].own_lookup_ms = min(share_ns / 1e6, found[at].lookup_ms or 0.0)
    for one in found:
        if one.lookup_ms is not None and not one.l2_keys:
            one.own_lookup_ms = one.lookup_ms


def _copies(
    requests: Sequence[Row],
    found: Sequence[Loaded],
    events: Sequence[Row],
    by_request: Mapping[str, Sequence[Row]],
    skew_ns: int,
) -> None:
    """Give each load line, which names no request, to the first request that waits for one then.

    A request waits from its prefetch line to its first token, unless the engine had more than LMCache found.
    """
    waiting: deque[tuple[int, int, Loaded]] = deque()
    for row, one in zip(requests, found, strict=True):
        if one.lookup in HITS and not (one.hit is not None and (row["cached_tokens"] or 0) > one.hit):
            event = next(e for e in by_request[row["request_id"]] if e["kind"] == "prefetch")
            until_ns = row["t0_unix_ns"] + row["first_token_ns"] + skew_ns
            waiting.append((event["t_unix_ns"], until_ns, one))
    waiting = deque(sorted(waiting, key=lambda one: one[0]))
    ready: list[tuple[int, int, Loaded]] = []
    for event in sorted((e for e in events if e["kind"] == "load"), key=lambda e: e["t_unix_ns"]):
        while waiting and waiting[0][0] <= event["t_unix_ns"] + _STAMP_NS:
            ready.append(waiting.popleft())
        ready = [one for one in ready if one[1] + _STAMP_NS >= event["t_unix_ns"]]
        fitting = next((one for one in ready if one[2].hit is None or event["tokens"] <= one[2].hit), None)
        if fitting is not None:
            ready.remove(fitting)
            fitting[2].load_ms, fitting[2].copied = event["cost_ms"], event["tokens"]


def _loads_in_steps(requests: Sequence[Row], found: Sequence[Loaded], events: Sequence[Row], skew_ns: int) -> None:
    """How long each request stood in engine steps that loaded for others: those steps hold up all that are in them."""
    loads = [
        (event["t_unix_ns"], event["t_unix_ns"] - round(event["cost_ms"] * 1e6), event["request_id"])
        for event in sorted(events, key=lambda event: event["t_unix_ns"])
        if event["kind"] == "load" and event["cost_ms"] is not None and event["rank"] in {None, 0}
    ]
    longest_ns = max((end - start for end, start, _ in loads), default=0)
    ends = [end for end, _, _ in loads]
    for row, one in zip(requests, found, strict=True):
        if row["first_token_ns"] is None or row["server_prefill_ms"] is None:
            continue
        first_token_ns = row["t0_unix_ns"] + row["first_token_ns"] + skew_ns
        stood = (first_token_ns - round(row["server_prefill_ms"] * 1e6), first_token_ns)
        near = loads[bisect_right(ends, stood[0]) : bisect_left(ends, stood[1] + longest_ns)]
        others = [(start, end) for end, start, request_id in near if request_id != row["request_id"]]
        one.others_in_step_ms = overlap_ns(stood, others) / 1e6
