"""Promises of harness.experiment.join."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from harness.experiment.arm_log import ArmLog
from harness.experiment.join import join_servers
from harness.records import SCHEMAS, Caveat

READ = {"remote": ArmLog(was_read=True)}
T0 = 1_800_000_000_000_000_000
MS = 1_000_000


def _request(request_id: str, sent_ms: float = 0.0, ttft_ms: float | None = 100.0, **more: Any) -> dict[str, Any]:
    first = None if ttft_ms is None else round((sent_ms + ttft_ms) * MS)
    return {
        "arm": "remote",
        "workload": "w",
        "pass": "replay",
        "repeat": 0,
        "request_id": request_id,
        "t0_unix_ns": T0,
        "sent_ns": round(sent_ms * MS),
        "headers_ns": round((sent_ms + 2) * MS),
        "first_token_ns": first,
        "done_ns": first,
        "ttft_ms": ttft_ms,
        "outcome": "timeout" if ttft_ms is None else "ok",
        **more,
    }


def _event(kind: str, at_ms: float, **more: Any) -> dict[str, Any]:
    return {"arm": "remote", "kind": kind, "t_unix_ns": T0 + round(at_ms * MS), "line": "", "line_no": 1, **more}


def _prefetch(request_id: str, at_ms: float, cost_ms: float, l1: int = 0, l2: int = 5) -> dict[str, Any]:
    hit = 256 * (l1 + l2)
    keys = {"keys": 5, "l1_keys": l1, "l2_keys": l2, "bytes": l2 * 1_000_000, "hit_tokens": hit}
    return _event("prefetch", at_ms, request_id=request_id, cost_ms=cost_ms, **keys)


def _join(
    requests: Sequence[dict[str, Any]],
    events: Sequence[dict[str, Any]] = (),
    counters: Mapping[str, int] | None = None,
    logs: Mapping[str, ArmLog] = READ,
) -> tuple[list[dict[str, Any]], list[Caveat]]:
    key = {"arm": "remote", "workload": "w", "pass": "replay", "repeat": 0}
    rows: dict[str, list[dict[str, Any]]] = {
        "requests": list(requests),
        "loads": list(events),
        "passes": [] if counters is None else [{**key, **counters}],
        "samples": [],
    }
    notes: list[Caveat] = []
    tables = {name: pa.Table.from_pylist(rows[name], schema=schema) for name, schema in SCHEMAS.items()}
    joined = join_servers(tables, logs, notes.append)
    assert {name: table.schema for name, table in joined.items()} == SCHEMAS
    return joined["requests"].to_pylist(), notes


def _split(row: Mapping[str, Any]) -> tuple[int | None, int | None]:
    return row["local_cached_tokens"], row["external_cached_tokens"]


NO_LOCAL = {"prefix_cache_hits": 0, "external_prefix_cache_hits": 1280}


def test_without_lmcache_all_cached_tokens_are_the_engines() -> None:
    """An arm with nothing behind the engine has no external hits, and no load."""
    ((row,), _) = _join([_request("kvr-1", cached_tokens=256)], logs={})
    assert (row["lookup"], *_split(row), row["load_ms"]) == ("no_lmcache", 256, 0, None)


def test_an_engine_that_asks_somebody_has_more_than_its_own() -> None:
    """An attached arm of which nobody said that it has LMCache: its counters show it, and nothing is claimed."""
    counters = {"prefix_cache_hits": 256, "external_prefix_cache_hits": 1024, "external_prefix_cache_queries": 4096}
    ((row,), _) = _join([_request("kvr-1", cached_tokens=1280)], counters=counters, logs={})
    assert (row["lookup"], *_split(row)) == ("no_log", None, None)


def test_a_miss_is_inferred_and_said_to_be() -> None:
    """A full miss leaves no line: against the plan, if an infinite cache would have hit."""
    ours = [_request("kvr-1", cached_tokens=128, predicted_cached_tokens=0)]
    ours += [_request("kvr-2", cached_tokens=128, predicted_cached_tokens=1280), _request("kvr-3", ttft_ms=None)]
    rows, _ = _join(ours, counters={"prefix_cache_hits": 256, "external_prefix_cache_hits": 0})
    assert [row["lookup"] for row in rows] == ["missed_inferred", "missed_against_plan", "not_served"]
    assert [_split(row) for row in rows] == [(128, 0), (128, 0), (None, None)]


@pytest.mark.parametrize("counters", [None, {"prefix_cache_hits": 0, "external_prefix_cache_hits": 1280}])
def test_a_log_that_is_silent_about_hits_tells_nothing(counters: dict[str, int] | None) -> None:
    """Tokens were cached, and may be LMCache's: no line is then no miss, but another log or level."""
    rows, notes = _join([_request("kvr-1", cached_tokens=1280)], counters=counters)
    assert [row["lookup"] for row in rows] == ["no_log"]
    assert [note.kind for note in notes] == ["log_of_another_run"]
    assert "no request at all" in notes[0].text


def test_the_engines_own_id_joins_where_ours_was_dropped() -> None:
    """A gateway gave the request another id: the response has it, and LMCache's log repeats that one."""
    for response_id in ("cmpl-8c1f", "chatcmpl-8c1f"):
        ours = [_request("kvr-1", cached_tokens=1280, response_id=response_id)]
        ((row,), notes) = _join(ours, [_prefetch("8c1f", 60, 50)], NO_LOCAL)
        assert (row["request_id"], row["lookup"], row["loaded_l2_keys"]) == ("kvr-1", "l2", 5)
        assert notes == []


def test_a_log_that_was_not_read_tells_nothing() -> None:
    """No miss is made of a missing log, and nothing is told of cached tokens."""
    ((row,), _) = _join([_request("kvr-1", cached_tokens=1280)], logs={"remote": ArmLog(was_read=False)})
    assert (row["lookup"], *_split(row)) == ("no_log", None, None)


def test_a_hit_has_its_keys_its_bytes_and_its_bandwidth() -> None:
    """What the log says of the request's own lookup, whichever tier it came from."""
    ours = [_request("kvr-1", cached_tokens=1280), _request("kvr-2", cached_tokens=1280)]
    events = [_prefetch("kvr-1", 60, 50), _prefetch("kvr-2", 61, 1, l1=5, l2=0)]
    (remote, local), _ = _join(ours, events, {**NO_LOCAL, "external_prefix_cache_hits": 2560})
    assert (remote["lookup"], remote["loaded_keys"], remote["loaded_l2_keys"], remote["loaded_bytes"]) == (
        "l2",
        5,
        5,
        5_000_000,
    )
    assert remote["loaded_bytes_per_s"] == pytest.approx(5_000_000 / 0.05)
    assert (local["lookup"], local["loaded_l1_keys"], local["loaded_bytes_per_s"]) == ("l1", 5, None)
    assert _split(remote) == _split(local) == (0, 1280)


def test_where_the_engine_hit_too_the_load_lines_tell() -> None:
    """One prompt loaded, one found in the engine: what was copied tells, since the sums are the engine's own."""
    ours = [_request("kvr-1", 0, cached_tokens=1280), _request("kvr-2", 200, cached_tokens=1280)]
    events = [_prefetch("kvr-1", 60, 50), _event("load", 70, tokens=1280, cost_ms=4), _prefetch("kvr-2", 250, 40)]
    counters = {"prefix_cache_hits": 1280, "external_prefix_cache_hits": 1280}
    rows, _ = _join(ours, events, counters)
    assert [_split(row) for row in rows] == [(0, 1280), (1280, 0)]
    rows, _ = _join(ours, events, {**counters, "prefix_cache_hits": 1152})
    assert [_split(row) for row in rows] == [(None, None), (None, None)]


def test_more_than_lmcache_found_is_the_engines_own() -> None:
    """A prompt of which the engine has more than whole chunks needs no load."""
    ((row,), _) = _join([_request("kvr-1", cached_tokens=1290)], [_prefetch("kvr-1", 60, 50)])
    assert _split(row) == (1290, 0)


def test_ttft_is_divided_and_adds_up() -> None:
    """Two loads at once share the remote tier: half of each one's lookup is the wait for the other."""
    told = {"server_queue_ms": 80.0, "server_prefill_ms": 15.0, "cached_tokens": 1280}
    ours = [_request("kvr-1", 0, **told), _request("kvr-2", 0, **told)]
    ours.append(_request("kvr-3", 500, 99.0, server_queue_ms=80.0, server_prefill_ms=15.0, cached_tokens=0))
    events = [_prefetch("kvr-1", 70, 60), _prefetch("kvr-2", 70, 60), _event("load", 74, tokens=1280, cost_ms=3)]
    rows, _ = _join(ours, events, {**NO_LOCAL, "external_prefix_cache_hits": 2560})
    first, second, third = rows
    assert (first["load_wait_ms"], first["load_ms"], first["queue_ms"]) == (30.0, 33.0, 17.0)
    assert (second["load_wait_ms"], second["load_ms"], second["queue_ms"]) == (30.0, 30.0, 20.0)
    assert (third["load_wait_ms"], third["load_ms"], third["queue_ms"]) == (None, None, 80.0)
    assert [row["delivery_ms"] for row in rows] == [4.0, 4.0, 4.0], "2 ms of acceptance, 2 ms as the third had alone"
    names = ("queue_ms", "load_wait_ms", "load_ms", "recompute_ms", "delivery_ms", "unexplained_ms")
    for row in rows:
        assert sum(row[name] or 0.0 for name in names) == pytest.approx(row["ttft_ms"])
    assert third["unexplained_ms"] == pytest.approx(0.0)


def test_lmcache_inside_the_engine_says_what_the_engine_had() -> None:
    """Its lookup line tells computed and needed tokens; the loads of others in the same step are the wait."""
    ours = [
        _request("kvr-1", 0, server_queue_ms=10.0, server_prefill_ms=80.0, cached_tokens=1280),
        _request("kvr-2", 0, server_queue_ms=10.0, server_prefill_ms=80.0, cached_tokens=0),
    ]
    hit = {"hit_tokens": 1280, "computed_tokens": 256, "need_tokens": 1024}
    miss = {"hit_tokens": 0, "computed_tokens": 0, "need_tokens": 0}
    events = [
        _event("lookup", 15, request_id="kvr-1", tokens=1300, **hit),
        _event("lookup", 16, request_id="kvr-2", tokens=1300, **miss),
        _event("load", 60, request_id="kvr-1", tokens=1024, bytes=4_000_000, cost_ms=40.0),
    ]
    (loaded, missed), _ = _join(ours, events)
    assert (loaded["lookup"], *_split(loaded)) == ("hit", 256, 1024)
    assert (loaded["load_ms"], loaded["load_wait_ms"], loaded["recompute_ms"]) == (40.0, 0.0, 40.0)
    assert loaded["loaded_bytes_per_s"] == pytest.approx(4_000_000 / 0.04)
    assert (missed["lookup"], *_split(missed)) == ("missed", 0, 0)
    assert (missed["load_wait_ms"], missed["recompute_ms"]) == (40.0, 40.0)


def _inside(request_id: str, at_ms: float, hit: int, instance: str = "lmcache") -> dict[str, Any]:
    told = {"hit_tokens": hit, "computed_tokens": 0, "need_tokens": hit, "instance": instance}
    return _event("lookup", at_ms, request_id=request_id, tokens=1300, **told)


def test_loads_for_others_before_and_in_the_queue_are_the_wait() -> None:
    """A step that loads holds up what waits for the next one, also what the engine has not yet taken into its queue.

    Two ranks write a line each for one load: it counts once.
    """
    ours = [
        _request("kvr-1", 0, 220.0, server_queue_ms=5.0, server_prefill_ms=210.0, cached_tokens=1280),
        _request("kvr-2", 50, 400.0, server_queue_ms=200.0, server_prefill_ms=30.0, cached_tokens=0),
    ]
    load = _event("load", 210, request_id="kvr-1", tokens=1280, cost_ms=200.0, instance="lmcache")
    (_, waited), _ = _join(ours, [_inside("kvr-1", 8, 1280), load, load, _inside("kvr-2", 400, 0)])
    # it came at 52 and was in the queue from 220 to 420: the load, from 10 to 210, covers what was before
    assert (waited["load_wait_ms"], waited["queue_ms"]) == (158.0, 200.0)
    load = _event("load", 300, request_id="kvr-1", tokens=1280, cost_ms=200.0, instance="lmcache")
    (_, waited), _ = _join(ours, [_inside("kvr-1", 8, 1280), load, load, _inside("kvr-2", 400, 0)])
    assert (waited["load_wait_ms"], waited["queue_ms"]) == (200.0, 120.0)


@pytest.mark.parametrize(("logs", "wait_ms"), [(("lmcache", "lmcache-1"), 0.0), (("scheduler", "worker-0"), 100.0)])
def test_another_engines_loads_hold_up_nobody_here(logs: tuple[str, str], wait_ms: float) -> None:
    """Logs in which lines of one request stand are one engine's, as a scheduler's and a worker's; others are not."""
    ours = [
        _request("kvr-1", 0, 200.0, server_queue_ms=5.0, server_prefill_ms=180.0, cached_tokens=1280),
        _request("kvr-2", 0, 200.0, server_queue_ms=5.0, server_prefill_ms=190.0, cached_tokens=0),
    ]
    one, other = logs
    events = [
        _inside("kvr-1", 8, 1280, other if wait_ms == 0 else one),
        _inside("kvr-2", 8, 0, one),
        _event("load", 120, request_id="kvr-1", tokens=1280, cost_ms=100.0, instance=other),
    ]
    (_, row), _ = _join(ours, events)
    assert (row["load_wait_ms"], row["recompute_ms"]) == (wait_ms, 190.0 - wait_ms)


def test_an_asynchronous_lookup_lasts_from_the_queue_to_its_answer() -> None:
    """Inside the engine only the answer has a line: two that are on their way at once have half of it each."""
    told = {"server_queue_ms": 80.0, "server_prefill_ms": 15.0, "cached_tokens": 1280}
    ours = [_request("kvr-1", **told), _request("kvr-2", **told)]
    events = []
    for name in ("kvr-1", "kvr-2"):
        events.append(_event("prefetch", 75, request_id=name, hit_tokens=1280, bytes=5_000_000))
        events.append(_inside(name, 78, 1280))
        events.append(_event("load", 90, request_id=name, tokens=1280, bytes=5_000_000, cost_ms=4.0))
    rows, _ = _join(ours, events)
    for row in rows:  # in the queue from 5 to 85, answered at 75; the other's copy is in the same step
        assert (row["lookup"], row["load_wait_ms"], row["load_ms"], row["queue_ms"]) == ("hit", 39.0, 39.0, 10.0)
        assert row["loaded_bytes_per_s"] == pytest.approx(5_000_000 / 0.07)


def test_a_copy_is_one_of_its_own_server() -> None:
    """Two engines, each with an LMCache server: a load line belongs to a request of that server."""
    told = {"server_queue_ms": 80.0, "server_prefill_ms": 15.0, "cached_tokens": 1280}
    ours = [_request("kvr-1", **told), _request("kvr-2", **told)]
    events = [_prefetch("kvr-1", 60, 50) | {"instance": "lmcache"}, _prefetch("kvr-2", 61, 50) | {"instance": "other"}]
    events.append(_event("load", 70, tokens=1280, cost_ms=4, instance="other"))
    (first, second), _ = _join(ours, events, NO_LOCAL)
    assert second["load_ms"] - first["load_ms"] == pytest.approx(4.0)


def test_a_lookup_that_timed_out_is_named() -> None:
    """Its line is a failure, and what follows is recomputed."""
    event = _event("failure", 15, request_id="kvr-1") | {"line": "still waiting for async lookup after 3 seconds"}
    ((row,), _) = _join([_request("kvr-1", cached_tokens=0)], [event])
    assert row["lookup"] == "timed_out"


def test_a_log_of_another_run_is_refused() -> None:
    """Requests that are all somebody else's are not ours: no miss is inferred from them, and a caveat says so."""
    ((row,), notes) = _join([_request("kvr-1", cached_tokens=0)], [_prefetch("kvr-other-1", 60, 50)])
    assert row["lookup"] == "no_log"
    assert [note.kind for note in notes] == ["log_of_another_run"]


@pytest.mark.parametrize(("is_remote", "lookup_ms"), [(False, 33.0), (True, 30.0)])
def test_a_clock_that_is_off_is_corrected_on_this_machine_only(is_remote: bool, lookup_ms: float) -> None:
    """An hour between log and client: seen, said, and taken off where both are of one machine."""
    hour = 3_600_000
    ours = [_request("kvr-1", 0, server_queue_ms=80.0, server_prefill_ms=15.0, cached_tokens=1280)]
    events = [_prefetch("kvr-1", hour + 70, 30), _event("load", hour + 74, tokens=1280, cost_ms=3)]
    ((row,), notes) = _join(ours, events, NO_LOCAL, {"remote": ArmLog(was_read=True, is_remote=is_remote)})
    assert [note.kind for note in notes] == ["clock_skew"]
    assert ("not corrected" in notes[0].text) == is_remote
    assert row["load_ms"] == lookup_ms
