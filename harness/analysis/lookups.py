"""What became of LMCache's lookup for each request of one arm: its log's events joined to requests by request id."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.loads_in_engine import loads_of_others, lookups_beside, steps_of
from harness.analysis.lookup import HITS, Loaded, Lookup, Row
from harness.analysis.spans import Span, shares_ns

_STAMP_NS = 2_000_000  # the log's stamps have milliseconds


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
        steps = [steps_of(row, skew_ns) for row in requests]
        _link_shares(found, lookups_beside(requests, found, by_request, steps))
        loads_of_others(requests, found, events, by_request, steps)
    else:
        _link_shares(found, _lookups(requests, found, by_request))
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


def _lookups(
    requests: Sequence[Row], found: Sequence[Loaded], by_request: Mapping[str, Sequence[Row]]
) -> dict[int, Span]:
    """When each lookup that went to the remote tier was on its way, by its request's place."""
    spans: dict[int, Span] = {}
    for at, one in enumerate(found):
        if one.l2_keys:
            event = next(e for e in by_request[requests[at]["request_id"]] if e["kind"] == "prefetch")
            spans[at] = event["t_unix_ns"] - round(event["cost_ms"] * 1e6), event["t_unix_ns"]
    return spans


def _link_shares(found: Sequence[Loaded], spans: Mapping[int, Span]) -> None:
    """What of each lookup went into its own transfer: the remote tier serves all that load from it at once equally."""
    for at, share_ns in zip(spans, shares_ns(list(spans.values())), strict=True):
        found[at].own_lookup_ms = min(share_ns / 1e6, found[at].lookup_ms or 0.0)
    for at, one in enumerate(found):
        if one.lookup_ms is not None and at not in spans:
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
    waiting: deque[_Waiting] = deque()
    for row, one in zip(requests, found, strict=True):
        if one.lookup in HITS and not (one.hit is not None and (row["cached_tokens"] or 0) > one.hit):
            event = next(e for e in by_request[row["request_id"]] if e["kind"] == "prefetch")
            until_ns = row["t0_unix_ns"] + row["first_token_ns"] + skew_ns
            waiting.append(_Waiting(event["t_unix_ns"], until_ns, event["instance"], one))
    waiting = deque(sorted(waiting, key=lambda one: one.from_ns))
    ready: list[_Waiting] = []
    for event in sorted((e for e in events if e["kind"] == "load"), key=lambda e: e["t_unix_ns"]):
        while waiting and waiting[0].from_ns <= event["t_unix_ns"] + _STAMP_NS:
            ready.append(waiting.popleft())
        ready = [one for one in ready if one.until_ns + _STAMP_NS >= event["t_unix_ns"]]
        fitting = next((one for one in ready if one.takes(event)), None)
        if fitting is not None:
            ready.remove(fitting)
            fitting.loaded.load_ms, fitting.loaded.copied = event["cost_ms"], event["tokens"]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that waits for a copy out of one LMCache server."""

    from_ns: int
    until_ns: int
    instance: str | None
    loaded: Loaded

    def takes(self, load: Row) -> bool:
        """Whether a load line of that server may be its own."""
        return load["instance"] == self.instance and (self.loaded.hit is None or load["tokens"] <= self.loaded.hit)
