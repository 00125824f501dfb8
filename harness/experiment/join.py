"""Requests, LMCache's log and the passes' counters joined: what was cached where, what was loaded, where TTFT went."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from harness.analysis.attribution import Parts, Told, attribute, idle_delivery_ms
from harness.analysis.clock_skew import clock_skew
from harness.analysis.lookup import HITS, Loaded, Lookup, Row
from harness.analysis.lookups import look_up
from harness.analysis.spans import alone
from harness.experiment.arm_log import ArmLog
from harness.experiment.cached_split import split_cached
from harness.records import Caveat

Note = Callable[[Caveat], None]
_SKEW_WORTH_SAYING_NS = 5_000_000
_LOOK_AT = [
    *("run_id", "arm", "workload", "pass", "repeat", "request_id", "response_id", "outcome", "t0_unix_ns"),
    *("sent_ns", "headers_ns", "first_token_ns", "done_ns", "ttft_ms"),
    *("cached_tokens", "predicted_cached_tokens", "server_queue_ms", "server_prefill_ms"),
]


def join_servers(tables: Mapping[str, pa.Table], logs: Mapping[str, ArmLog], note: Note) -> dict[str, pa.Table]:
    """The tables with what the servers told of each request filled in; every row and column is kept.

    `logs` has the arms with LMCache that are known; an engine that counts external queries has one, whoever set it up.
    What is wrong with the whole of a log goes to `note`.
    """
    columns: dict[str, list[Any]] = {name: [None] * tables["requests"].num_rows for name in _FILLED}
    requests = [{**row, "request_id": _known_as(row)} for row in tables["requests"].select(_LOOK_AT).to_pylist()]
    events: dict[str, list[dict[str, Any]]] = {}
    for event in tables["loads"].to_pylist():
        events.setdefault(event["arm"], []).append(event)
    passes = {(row["arm"], row["workload"], row["pass"], row["repeat"]): row for row in tables["passes"].to_pylist()}
    for arm in dict.fromkeys(row["arm"] for row in requests):
        places = [at for at, row in enumerate(requests) if row["arm"] == arm]
        rows = [requests[at] for at in places]
        if arm in logs:
            own = [one for key, one in passes.items() if key[0] == arm]
            loaded = _loaded(arm, rows, events.get(arm, []), logs[arm], own, note)
        else:
            asked = any(one["external_prefix_cache_queries"] for key, one in passes.items() if key[0] == arm)
            loaded = _all(rows, Lookup.NO_LOG if asked else Lookup.NO_LMCACHE)
        splits = split_cached(rows, loaded, passes)
        for at, one, split, parts in zip(places, loaded, splits, _parts(rows, loaded), strict=True):
            for name, value in _cells(one, split, parts).items():
                columns[name][at] = value
    filled = tables["requests"]
    for name, values in columns.items():
        position = filled.schema.get_field_index(name)
        field = filled.schema.field(position)
        filled = filled.set_column(position, field, pa.array(values, field.type))
    return {**tables, "requests": filled}


def _known_as(row: Row) -> str:
    """What LMCache's log calls a request: what the engine's response is called, whatever became of the id we sent."""
    response_id = row["response_id"] or ""
    return str(response_id.removeprefix("chat").removeprefix("cmpl-") or row["request_id"])


_FILLED = (
    *("local_cached_tokens", "external_cached_tokens", "lookup"),
    *("loaded_keys", "loaded_l1_keys", "loaded_l2_keys", "loaded_bytes", "loaded_bytes_per_s"),
    *("queue_ms", "load_wait_ms", "load_ms", "recompute_ms", "delivery_ms", "unexplained_ms"),
)


def _loaded(
    arm: str, rows: Sequence[Row], events: Sequence[Row], log: ArmLog, passes: Sequence[Row], note: Note
) -> list[Loaded]:
    """What LMCache did for each request of an arm, once its log is known to be that of these requests."""
    ours = {row["request_id"]: row for row in rows}
    named = [event for event in events if event["request_id"] is not None]
    others = not any(event["request_id"] in ours for event in named) and (named or _has_hits(rows, passes))
    if log.was_read and others:
        who = f"{named[0]['request_id']} and others, and no request of this run" if named else "no request at all"
        text = f"{arm}: LMCache's log names {who}, and tokens were cached"
        remedy = "is this the log of the LMCache that was asked, at level INFO?"
        note(Caveat("log_of_another_run", text, remedy, arm))
    if others or not log.was_read:
        return _all(rows, Lookup.NO_LOG)
    return look_up(rows, events, skew_ns=_skew_ns(arm, ours, named, log.is_remote, note))


def _has_hits(rows: Sequence[Row], passes: Sequence[Row]) -> bool:
    """Whether LMCache supplied anything, by the engine's counters; without them, whether it may have."""
    counted = [one["external_prefix_cache_hits"] for one in passes]
    if None in counted or not counted:
        return any(row["cached_tokens"] for row in rows)
    return any(counted)


def _all(rows: Sequence[Row], lookup: Lookup) -> list[Loaded]:
    """The same for all that were served."""
    return [Loaded(lookup if row["first_token_ns"] else Lookup.NOT_SERVED) for row in rows]


def _skew_ns(arm: str, ours: Mapping[str, Row], named: Sequence[Row], is_remote: bool, note: Note) -> int:
    bounds = []
    for event in named:
        row = ours.get(event["request_id"])
        if row is not None and event["kind"] in {"prefetch", "lookup"} and row["first_token_ns"] is not None:
            begun_ns = event["t_unix_ns"] - round((event["cost_ms"] or 0.0) * 1e6)
            sent_ns, first_ns = row["t0_unix_ns"] + row["sent_ns"], row["t0_unix_ns"] + row["first_token_ns"]
            bounds.append((begun_ns, event["t_unix_ns"], sent_ns, first_ns))
    skew = clock_skew(bounds)
    if skew is None:
        return 0
    if skew.contradictory:
        text = f"{arm}: LMCache's stamps fit no one difference between its clock and the client's: a clock was set"
        remedy = "durations are unaffected; do not trust times of loads beside times of requests"
        note(Caveat("clock_skew", text, remedy, arm))
        return 0
    if abs(skew.ns) > _SKEW_WORTH_SAYING_NS:
        done = "not corrected: the log may be of another machine" if is_remote else "corrected in the join"
        text = f"{arm}: LMCache's log is {skew.ns / 1e6:+,.0f} ms off the client's clock, {done}"
        note(Caveat("clock_skew", text, "set both clocks by the same source", arm))
    return 0 if is_remote else skew.ns


def _parts(rows: Sequence[Row], loaded: Sequence[Loaded]) -> list[Parts | None]:
    """The parts of each request's TTFT; None for one without a first token."""
    told = [_told(row, one) for row, one in zip(rows, loaded, strict=True)]
    sent = [at for at, row in enumerate(rows) if row["sent_ns"] is not None and row["done_ns"] is not None]
    by_itself = alone([(rows[at]["sent_ns"], rows[at]["done_ns"]) for at in sent])
    quiet = [one for at, is_alone in zip(sent, by_itself, strict=True) if is_alone and (one := told[at]) is not None]
    delivery_ms = idle_delivery_ms(quiet)
    return [None if one is None else attribute(replace(one, idle_delivery_ms=delivery_ms)) for one in told]


def _told(row: Row, one: Loaded) -> Told | None:
    if row["ttft_ms"] is None:
        return None
    accepted = None if row["headers_ns"] is None else (row["headers_ns"] - row["sent_ns"]) / 1e6
    return Told(
        ttft_ms=row["ttft_ms"],
        accepted_ms=None if accepted is None else min(accepted, row["ttft_ms"]),
        server_queue_ms=row["server_queue_ms"],
        server_prefill_ms=row["server_prefill_ms"],
        lookup_ms=one.lookup_ms,
        own_lookup_ms=one.own_lookup_ms,
        load_ms=one.load_ms,
        others_before_ms=one.others_before_ms,
        others_in_queue_ms=one.others_in_queue_ms,
        others_in_step_ms=one.others_in_step_ms,
        in_step=one.in_step,
    )


def _cells(one: Loaded, split: tuple[int | None, int | None], parts: Parts | None) -> dict[str, Any]:
    local, external = split
    load_ms = one.lookup_ms if one.lookup_ms is not None else one.load_ms
    rate = one.bytes / load_ms * 1e3 if one.lookup in HITS and one.bytes and load_ms else None
    cells: dict[str, Any] = {
        "local_cached_tokens": local,
        "external_cached_tokens": external,
        "lookup": str(one.lookup),
        "loaded_keys": one.keys,
        "loaded_l1_keys": one.l1_keys,
        "loaded_l2_keys": one.l2_keys,
        "loaded_bytes": one.bytes,
        "loaded_bytes_per_s": rate,
    }
    names = ("queue_ms", "load_wait_ms", "load_ms", "recompute_ms", "delivery_ms", "unexplained_ms")
    return cells | {name: None if parts is None else getattr(parts, name) for name in names}
