"""LMCache inside the engine: where a request stood while its engine loaded, for others and for it."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.analysis.lookup import HITS, Loaded, Row
from harness.analysis.spans import Span, covered_ns

_Load = tuple[int, int, str | None]  # ended, begun, for which request


@dataclass(frozen=True, slots=True)
class Steps:
    """When the engine accepted a request, had it in its queue, and had it in its steps, by the log's clock."""

    accepted_ns: int
    queued_ns: int
    begun_ns: int
    first_token_ns: int


def steps_of(row: Row, skew_ns: int) -> Steps | None:
    """None where the engine did not say, or there was no first token."""
    told = row["first_token_ns"], row["server_prefill_ms"], row["server_queue_ms"]
    if None in told:
        return None
    first_token_ns = row["t0_unix_ns"] + row["first_token_ns"] + skew_ns
    begun_ns = first_token_ns - round(row["server_prefill_ms"] * 1e6)
    queued_ns = begun_ns - round(row["server_queue_ms"] * 1e6)
    came_ns = row["sent_ns"] if row["headers_ns"] is None else row["headers_ns"]
    return Steps(row["t0_unix_ns"] + came_ns + skew_ns, queued_ns, begun_ns, first_token_ns)


def lookups_beside(
    requests: Sequence[Row],
    found: Sequence[Loaded],
    by_request: Mapping[str, Sequence[Row]],
    steps: Sequence[Steps | None],
) -> dict[int, Span]:
    """When each asynchronous lookup inside the engine was on its way: from its queue to the line that answers it.

    Only the answer has a line. The lookup began when the scheduler first saw the request, at most a step later.
    """
    spans: dict[int, Span] = {}
    for at, (row, one) in enumerate(zip(requests, found, strict=True)):
        answers = [e for e in by_request.get(row["request_id"], []) if e["kind"] == "prefetch" and e["hit_tokens"]]
        stood = steps[at]
        if answers and stood is not None and one.lookup in HITS:
            end_ns = min(max(answers[-1]["t_unix_ns"], stood.queued_ns), stood.begun_ns)
            spans[at] = stood.queued_ns, end_ns
            one.lookup_ms = (end_ns - stood.queued_ns) / 1e6
    return spans


def loads_of_others(
    requests: Sequence[Row],
    found: Sequence[Loaded],
    events: Sequence[Row],
    by_request: Mapping[str, Sequence[Row]],
    steps: Sequence[Steps | None],
) -> None:
    """How long each request stood while its engine loaded for others: that holds up all, in its steps or waiting."""
    engines = _engines(by_request)
    loads = _loads_by_engine(events, engines)
    longest_ns = max((end - begun for of in loads.values() for end, begun, _ in of), default=0)
    for row, one, stood in zip(requests, found, steps, strict=True):
        own = by_request.get(row["request_id"], [])
        if stood is None or not own:
            continue
        of = loads.get(engines.get(own[0]["instance"], own[0]["instance"]), [])
        first = bisect_right(of, stood.accepted_ns, key=_end)
        near = of[first : bisect_left(of, stood.first_token_ns + longest_ns, key=_end)]
        others = [(begun, end) for end, begun, whose in near if whose != row["request_id"]]
        looked_ns = stood.queued_ns + round((one.lookup_ms or 0.0) * 1e6)
        one.others_before_ms = covered_ns((stood.accepted_ns, stood.queued_ns), others) / 1e6
        one.others_in_queue_ms = covered_ns((looked_ns, stood.begun_ns), others) / 1e6
        one.others_in_step_ms = covered_ns((stood.begun_ns, stood.first_token_ns), others) / 1e6


def _loads_by_engine(events: Sequence[Row], engines: Mapping[str | None, str | None]) -> dict[str | None, list[_Load]]:
    loads: dict[str | None, list[_Load]] = {}
    for event in sorted(events, key=lambda event: event["t_unix_ns"]):
        if event["kind"] == "load" and event["cost_ms"] is not None:
            begun_ns = event["t_unix_ns"] - round(event["cost_ms"] * 1e6)
            of = loads.setdefault(engines.get(event["instance"], event["instance"]), [])
            of.append((event["t_unix_ns"], begun_ns, event["request_id"]))
    return loads


def _end(load: _Load) -> int:
    return load[0]


def _engines(by_request: Mapping[str, Sequence[Row]]) -> dict[str | None, str | None]:
    """Which logs are of one engine: those in which lines of one request stand. By one of their names."""
    engine: dict[str | None, str | None] = {}
    for events in by_request.values():
        names = {event["instance"] for event in events}
        joined = {engine.get(name, name) for name in names}
        if len(joined) > 1:
            first = min(joined, key=str)
            engine |= {name: first for name in (*engine, *names) if engine.get(name, name) in joined}
    return engine
