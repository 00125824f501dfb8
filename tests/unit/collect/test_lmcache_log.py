"""harness.collect.lmcache_log: LMCache's lines as events."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.collect import KeyLayout, LmcacheLog, parse_log
from harness.errors import CollectError
from harness.records import LoadEvent

LOGS = next((up / "shared/data/logs" for up in Path(__file__).parents if (up / "shared/data/logs").is_dir()), Path("-"))
BANNER = "LMCache v0.5.5 (g05a013b2)\n"
COUNT = st.integers(0, 10**7)


def _parse(text: str, version: str | None = "0.5.5", layout: KeyLayout | None = None) -> tuple[LoadEvent, ...]:
    return _log(text, version, layout).events


def _log(text: str, version: str | None = None, layout: KeyLayout | None = None) -> LmcacheLog:
    return parse_log(
        io.StringIO(text, newline="\n"),
        arm="valkey-1",
        repeat=2,
        instance="lmcache",
        file="lmcache.log",
        version=version,
        layout=layout,
    )


def _line(message: str, level: str = "INFO", stamp: str = "2026-11-29 20:01:02,345") -> str:
    """A line as LMCache's formatter writes it: coloured, whether or not a terminal reads it."""
    return f"\x1b[32;20m[{stamp}] LMCache {level}:\x1b[0m {message} \x1b[3m(file.py:726:lmcache.v1.module)\x1b[0m\n"


def _prefetch(hit: int, keys: int, l1: int, cost: str, request_id: str) -> str:
    return _line(
        f"Prefetch request completed (L1+L2): {hit}/{keys} retained keys ({l1} L1, {hit - l1} L2) in {cost} ms "
        f"(external_request_id={request_id}, prefetch_request_id=-1)"
    )


@settings(deadline=None)
@given(st.data(), COUNT, st.integers(0, 10**6), st.integers(0, 10**5))
def test_a_prefetch_line_gives_back_what_was_written(data: st.DataObject, keys: int, tenths: int, seq: int) -> None:
    """Keys asked for and found in each tier, the time, and the client's own id come back from the line."""
    hit = data.draw(st.integers(0, keys))
    l1 = data.draw(st.integers(0, hit))
    text = _prefetch(hit, keys, l1, f"{tenths / 10:.1f}", f"cmpl-kvr-r1a1-{seq}-0-1a2b3c4d")
    (event,) = _parse(text)
    assert (event.kind, event.keys, event.l1_keys, event.l2_keys) == ("prefetch", keys, l1, hit - l1)
    assert event.cost_ms == tenths / 10
    assert (event.request_id, event.seq) == (f"kvr-r1a1-{seq}", seq)
    assert (event.tokens, event.hit_tokens, event.bytes, event.gb_per_s) == (None, None, None, None)


@settings(deadline=None)
@given(st.sampled_from([("Retrieved", "load"), ("Stored", "store")]), COUNT, st.integers(0, 10**6))
def test_a_transfer_line_gives_back_what_was_written(what: tuple[str, str], tokens: int, thousandths: int) -> None:
    """Loads and stores have their tokens and their time; no request id, for the line has none."""
    (event,) = _parse(_line(f"{what[0]} {tokens} tokens in {thousandths / 1000:.3f} seconds"))
    assert (event.kind, event.tokens, event.request_id, event.keys) == (what[1], tokens, None, None)
    assert event.cost_ms == pytest.approx(thousandths)


@settings(deadline=None)
@given(st.text(max_size=60), st.text("\x1b[0;3m", max_size=6))
def test_lines_of_others_are_passed_over(text: str, colour: str) -> None:
    """Whatever else stands in the log, an event is found in LMCache's lines only."""
    others = "".join(f"{colour}{part}\n" for part in text.splitlines() if "Stored" not in part)
    assert [event.kind for event in _parse(BANNER + others + _line("Stored 256 tokens in 0.001 seconds"))] == ["store"]


def test_keys_become_tokens_only_where_that_is_exact() -> None:
    """With two ranks 10 keys are five chunks; an odd count means that the ranks differ, so nothing is claimed."""
    layout = KeyLayout(chunk_size_tokens=256, kv_ranks=2, bytes_per_key=1_000)
    (even,) = _parse(_prefetch(10, 16, 4, "12.3", "cmpl-x-0-1a2b3c4d"), layout=layout)
    assert (even.tokens, even.hit_tokens, even.bytes) == (2048, 1280, 6_000)
    (odd,) = _parse(_prefetch(9, 16, 4, "12.3", "cmpl-x-0-1a2b3c4d"), layout=layout)
    assert (odd.tokens, odd.hit_tokens, odd.bytes) == (2048, None, 5_000)


@pytest.mark.parametrize(
    ("engine_id", "request_id", "seq"),
    [
        ("cmpl-kvr-r1a1-7-0-1a2b3c4d", "kvr-r1a1-7", 7),
        ("chatcmpl-kvr-r1a1-7-1a2b3c4d", "kvr-r1a1-7", 7),
        ("cmpl-r0-3-0-9e07d124", "r0-3", None),
        ("cmpl-bench-000123-0-1a2b3c4d", "bench-000123", None),
        ("something-else", "something-else", None),
    ],
)
def test_the_clients_id_is_taken_out_of_the_engines(engine_id: str, request_id: str, seq: int | None) -> None:
    """vLLM's wrapping comes off; only ids that carry our tag have a seq."""
    (event,) = _parse(_prefetch(1, 1, 0, "1.0", engine_id))
    assert (event.request_id, event.seq) == (request_id, seq)


def test_stamps_are_this_machines_local_time() -> None:
    """A line stamped with the local time of an instant has that instant in unix nanoseconds."""
    instant = datetime(2026, 6, 29, 12, 0, 3, tzinfo=UTC) + timedelta(milliseconds=45)
    stamp = instant.astimezone().strftime("%Y-%m-%d %H:%M:%S,") + "045"
    (event,) = _parse(_line("Stored 256 tokens in 0.001 seconds", stamp=stamp))
    assert event.t_unix_ns == round(instant.timestamp() * 1000) * 10**6


@pytest.mark.parametrize(
    ("level", "message", "request_id"),
    [
        ("ERROR", "Some keys not found during retrieve!", None),
        ("ERROR", "Cannot retrieve keys due to exception", None),
        (
            "WARNING",
            "Prefetch job for request cmpl-kvr-r1-4-0-1a2b3c4d not found (already completed or invalid)",
            "kvr-r1-4",
        ),
        ("WARNING", "Store task 3 to adapter 0 failed for keys: []", None),
        ("WARNING", "Cleaning up in-flight prefetch request 4 (10 keys).", None),
        ("WARNING", "Valkey GET failed (batch=1, idx=2): timeout", None),
        ("WARNING", "[req=cmpl-kvr-r1-5-0-1a2b3c4d] LMCache hit mismatch across servers", "kvr-r1-5"),
    ],
)
def test_trouble_with_a_move_is_a_failure(level: str, message: str, request_id: str | None) -> None:
    """Errors, and warnings that something did not work, are failures with the request's id where the line has it."""
    (event,) = _parse(_line(message, level))
    assert (event.kind, event.request_id) == ("failure", request_id)


@pytest.mark.parametrize(
    "message",
    [
        "LazyMemoryAllocator requires memory pinning which is not supported on the current backend.",
        "shardvk.ShardedClient does not expose submit_batch_delete; L2 eviction delete will be a no-op.",
    ],
)
def test_a_healthy_servers_warnings_are_no_failures(message: str) -> None:
    """The warnings that every start of this stack prints count as nothing."""
    assert _parse(_line(message, "WARNING")) == ()


@pytest.mark.parametrize(
    "message",
    [
        "Prefetch request completed (L1+L2): 10/16 kept keys (4 L1, 6 L2) in 12.3 ms (request_id=7)",
        "Prefetch request completed: 10 of 16 keys",
        "Retrieved 2560 tokens in 12 ms",
        "Stored 2048 out of total 2048 tokens. size: 0.2188 GiB, cost 14.7797 ms, throughput: 14.8007 GB/s",
        "[req_id=cmpl-x-0-1a2b3c4d] Retrieved 4096 of 4096 required tokens (from 4096 total tokens).",
        "Reqid: cmpl-x-0-1a2b3c4d, Total tokens 4109, LMCache hit tokens: 4096, to load: 4096",
    ],
)
def test_a_changed_format_is_an_error_that_shows_the_line(message: str) -> None:
    """A line about a move that cannot be read names its file, its line and itself; it is never passed over."""
    with pytest.raises(CollectError) as caught:
        _parse("x\n" + _line(message) + _line("Stored 256 tokens in 0.001 seconds"))
    assert caught.value.where == "lmcache.log:2"
    assert message in caught.value.what


def test_only_the_last_line_may_be_torn() -> None:
    """The line LMCache was writing when it died is left out; the same text in mid-file is an error."""
    whole, torn = _line("Stored 256 tokens in 0.001 seconds"), "[2026-11-29 20:01:02,345] LMCache INFO: Stored 25"
    assert len(_parse(whole + torn)) == 1
    with pytest.raises(CollectError):
        _parse(torn + "\n" + whole)
    with pytest.raises(CollectError):
        parse_log([torn, whole], arm="a", repeat=0, instance="lmcache", file="f")


def test_a_log_that_is_not_lmcaches_is_an_error() -> None:
    """No line of LMCache at all is a wrong file, not an idle server; an idle server has an empty table."""
    with pytest.raises(CollectError) as caught:
        _parse("INFO:     Started server process [24094]\n")
    assert caught.value.where == "lmcache.log:1"
    assert "Started server process" in caught.value.detail
    assert _parse(BANNER + "INFO:     Started server process [24094]\n") == ()


@pytest.mark.parametrize("version", ["0.6.0", "0.3.0", "0.2.1", "1.0.0", "nightly"])
def test_a_version_not_known_is_an_error(version: str) -> None:
    """A version whose lines nobody has read is refused, even if the lines look the same: the package's or the log's."""
    line = _line("Stored 256 tokens in 0.001 seconds")
    with pytest.raises(CollectError, match=version.replace(".", r"\.")):
        _parse(line, version=version)
    if version != "nightly":
        with pytest.raises(CollectError, match=version.replace(".", r"\.")):
            _parse(f"  LMCache v{version} (g05a013b2)\n" + line, version=None)


def test_the_version_is_what_the_log_says() -> None:
    """The banner's version, or that of the connector's first line, is in every event; it overrides the package's."""
    line = _line("Stored 256 tokens in 0.001 seconds")
    started = _line(
        "LMCache initialized for role KVConnectorRole.WORKER with version 0.5.4-g05a013b2, vllm version 0.31.0,"
    )
    assert [event.version for event in _parse(BANNER + line, version="0.5.6")] == ["0.5.5"]
    assert [event.version for event in _parse(started + line, version=None)] == ["0.5.4"]
    assert [event.version for event in _parse(line, version="0.5.6")] == ["0.5.6"]


def test_without_a_version_the_lines_tell_which_it_can_be() -> None:
    """No banner and no package: every event has the range of versions that write all the lines that are there."""
    text = _prefetch(1, 1, 0, "1.0", "cmpl-x-0-1a2b3c4d") + _line("Stored 256 tokens in 0.001 seconds")
    assert {event.version for event in _parse(text, version=None)} == {"0.4.7 to 0.5.6"}
    old = _line("Prefetch request completed (L1+L2): 10/16 prefix hits (4 L1, 6 L2) in 12.3 ms (request_id=7)")
    assert _log(old).version == "0.4.1 to 0.4.2"


TOTAL, NEED = st.integers(1, 10**6), st.integers(-16, 10**6)


@settings(deadline=None)
@given(TOTAL, st.integers(0, 10**6), NEED, st.booleans())
def test_a_lookup_line_gives_back_what_was_written(total: int, hit: int, need: int, is_old: bool) -> None:
    """Both eras of the scheduler's line: what the engine had (later only), what LMCache has, what is to be loaded."""
    computed = "" if is_old else "Inference Engine computed tokens: 128, "
    text = f"Reqid: cmpl-kvr-r1a1-7-0, Total tokens {total}, {computed}LMCache hit tokens: {hit}, need to load: {need}"
    (event,) = _parse(_line(text), version=None)
    assert (event.kind, event.tokens, event.hit_tokens, event.need_tokens) == ("lookup", total, hit, need)
    assert (event.computed_tokens, event.request_id, event.seq) == (None if is_old else 128, "kvr-r1a1-7", 7)


@settings(deadline=None)
@given(COUNT, COUNT, COUNT, st.integers(0, 10**6), st.sampled_from(["", "[req_id=cmpl-kvr-r1a1-7-0-1a2b3c4d] "]))
def test_a_load_inside_the_engine_gives_back_what_was_written(
    got: int, needed: int, total: int, size: int, request: str
) -> None:
    """Tokens loaded, asked for and found, size in GiB, time and rate; the request where the version says it."""
    text = (
        f"{request}Retrieved {got} out of {needed} required tokens (from {total} total tokens). "
        f"size: {size / 1e4:.4f} gb, cost {size / 1e4:.4f} ms, throughput: {size / 1e4:.4f} GB/s;"
    )
    (event,) = _parse(_line(text), version=None)
    assert (event.kind, event.tokens, event.need_tokens, event.total_tokens) == ("load", got, needed, total)
    assert event.bytes == round(round(size / 1e4, 4) * 2**30)
    assert (event.cost_ms, event.gb_per_s) == (round(size / 1e4, 4), round(size / 1e4, 4))
    assert event.request_id == ("kvr-r1a1-7" if request else None)
    (exact,) = _parse(_line(text), version=None, layout=KeyLayout(256, 1, 1_048_576))
    assert exact.bytes == got * 4096


@pytest.mark.parametrize(
    ("message", "kind", "figures"),
    [
        (
            "Reqid: cmpl-x-0-1a2b3c4d, Total tokens 4109, LMCache hit tokens: None.",
            "lookup",
            {"tokens": 4109, "hit_tokens": None, "request_id": "x"},
        ),
        (
            (
                "Reqid: cmpl-x-0-1a2b3c4d, Total tokens 99, Inference Engine computed tokens: 16, LMCache "
                "hit tokens: 64, but need to load: 48 < min_retrieve 256, skip retrieve but record for save skip"
            ),
            "lookup",
            {"computed_tokens": 16, "hit_tokens": 64, "need_tokens": 48},
        ),
        (
            "Retrieved 84 out of 84 out of total 15444 tokens",
            "load",
            {"tokens": 84, "need_tokens": 84, "total_tokens": 15444, "cost_ms": None},
        ),
        (
            (
                "Stored 256 out of total 300 tokens. size: 0.5000 gb, total time 4.0000 ms, throughput: 9.0000 GB/s; "
                "offload_time: 1.0000 ms, put_time: 2.0000 ms"
            ),
            "store",
            {"tokens": 256, "total_tokens": 300, "cost_ms": 4.0, "gb_per_s": 9.0, "bytes": 2**29},
        ),
        ("Stored 256 out of total 300 tokens", "store", {"tokens": 256, "total_tokens": 300, "cost_ms": None}),
        (
            (
                "[req_id=unspecified] Stored 256 out of total 300 tokens. size: 0.5000 GB, cost 4.0000 ms, throughput: "
                "9.0000 GB/s"
            ),
            "store",
            {"tokens": 256, "request_id": None, "cost_ms": 4.0},
        ),
        (
            "Storing KV cache for 256 out of 300 tokens (skip_leading_tokens=44) for request cmpl-bench-000123-0",
            "store",
            {"tokens": 256, "total_tokens": 300, "request_id": "bench-000123", "cost_ms": None},
        ),
        (
            "Responding to scheduler for lookup id cmpl-x-0-1a2b3c4d with retrieved length 1280",
            "prefetch",
            {"hit_tokens": 1280, "request_id": "x"},
        ),
    ],
)
def test_the_rarer_lines_are_read_too(message: str, kind: str, figures: dict[str, Any]) -> None:
    """Lookups on their way or too short to load, loads layer by layer, stores of a build in between, announcements."""
    (event,) = _parse(_line(message), version=None)
    assert event.kind == kind
    assert {name: getattr(event, name) for name in figures} == figures
    assert _parse(_line("Retrieved 256 tokens"), version=None) == (), "said again after the last layer"


@pytest.mark.parametrize(
    ("process", "rank", "pid"),
    [
        ("", None, None),
        ("(VllmWorker rank=1 pid=4242) ", 1, 4242),
        ("(VllmWorker rank=3 engine_index=0 pid=4242) ", 3, 4242),
        ("(VllmWorker TP2 pid=4242) ", 2, 4242),
        ("(EngineCore_0 pid=750) (VllmWorker TP1 pid=756) ", 1, 756),
        ("(EngineCore_DP0 pid=4242) ", None, 4242),
        ("(Worker_TP7 pid=4242) ", 7, 4242),
        ("(RayWorkerWrapper pid=4242) ", None, 4242),
    ],
)
def test_the_writer_is_read_from_what_vllm_puts_in_front(process: str, rank: int | None, pid: int | None) -> None:
    """The process's rank and pid in every era of vLLM; nothing where nothing stands there."""
    (event,) = _parse(process + _line("Stored 256 tokens in 0.001 seconds"))
    assert (event.rank, event.pid) == (rank, pid)


@settings(deadline=None)
@given(st.data())
def test_lines_written_over_one_another_are_taken_apart(data: st.DataObject) -> None:
    """A process that writes into another's line costs neither of them: the rest of the first comes on the next line."""
    first, second = (
        f"[2026-11-29 20:01:02,345] LMCache INFO: Stored {tokens} tokens in 0.001 seconds (f.py:1:lmcache.v1.m)\n"
        for tokens in (1111, 2222)
    )
    at = data.draw(st.integers(len("[2026-11-29 20:01:02,345] LMCache INFO: "), len(first) - 1))
    process = data.draw(st.sampled_from(["", "(Worker_TP1 pid=7) "]))
    log = _log(first[:at] + process + second + first[at:])
    assert sorted(event.tokens or 0 for event in log.events) == [1111, 2222]
    assert log.cut == ()
    assert {event.rank for event in log.events if event.tokens == 2222} == {1 if process else None}


@given(st.data())
def test_a_line_cut_anywhere_is_read_or_named(data: st.DataObject) -> None:
    """Cut in its stamp, its level or its text: the other line is read, and this one too or it is said to be cut."""
    first, second = (
        f"[2026-11-29 20:01:02,345] LMCache INFO: Stored {tokens} tokens in 0.001 seconds (f.py:1:lmcache.v1.m)\n"
        for tokens in (1111, 2222)
    )
    at = data.draw(st.integers(1, len(first) - 1))
    log = _log(first[:at] + second + first[at:])
    tokens = [event.tokens for event in log.events]
    assert 2222 in tokens
    assert 1111 in tokens or len(log.cut) == 1


def test_what_stays_cut_is_said() -> None:
    """A line whose rest never comes, or whose beginning is lost, is named; it is no error and no event."""
    whole = _line("Stored 256 tokens in 0.001 seconds")
    log = _log("[2026-11-29 20:01:02,345] LMCache INFO: Retrieved 12" + whole + whole)
    assert [event.tokens for event in log.events] == [256, 256]
    assert log.cut == ("lmcache.log:1: Retrieved 12",)
    headless = "ved 1280 tokens in 0.004 seconds (engine_driven_transfer.py:497:lmcache.v1.multiprocess)\n"
    assert [text.startswith("lmcache.log:1: ved 1280") for text in _log(headless + whole).cut] == [True]


def test_two_servers_in_one_file_are_seen() -> None:
    """A second start, or a second version, with no end in between: the lines that show it are kept."""
    start = _line("Starting LMCache HTTP server on http://127.0.0.1:8180")
    end = _line("Shutting down LMCache HTTP server...")
    assert len(_log(start + start).starts) == 2
    assert _log(start + end + start).starts[0].startswith("lmcache.log:3")
    assert len(_log(BANNER + BANNER.replace("0.5.5", "0.5.4") + start).starts) == 2


@pytest.mark.skipif(not LOGS.is_dir(), reason="the live logs are not beside this checkout")
@pytest.mark.parametrize(
    ("name", "version"),
    [("lmcache-0.5.5-mp-4-valkeys.log", "0.5.5"), ("lmcache-0.5.6-mp-ten-docs.log", "0.5.6")],
)
def test_every_move_of_a_live_log_is_an_event(name: str, version: str) -> None:
    """Of a whole live log each line about a move becomes one event, and nothing failed in it."""
    text = (LOGS / name).read_text(encoding="utf-8")
    events = _parse(text, version, KeyLayout(chunk_size_tokens=256, kv_ranks=1))
    kinds = {kind: sum(event.kind == kind for event in events) for kind in ("prefetch", "load", "store", "failure")}
    assert kinds == {
        "prefetch": text.count("Prefetch request completed"),
        "load": text.count("Retrieved "),
        "store": text.count("Stored "),
        "failure": 0,
    }
    assert kinds["load"] > 0
    for event in events:
        if event.kind == "prefetch":
            assert event.request_id is not None
            assert not event.request_id.startswith("cmpl-")
            assert event.hit_tokens == ((event.l1_keys or 0) + (event.l2_keys or 0)) * 256


def _rendered() -> list[tuple[str, str]]:
    path = LOGS / "lmcache-lines.tsv"
    if not path.is_file():
        return []
    rows = [row.split("\t", 1) for row in path.read_text(encoding="utf-8").splitlines()]
    return [(version, line) for version, line in rows]


KINDS = {"Reqid": "lookup", "Storing": "store", "Stored": "store", "Retrieved": "load", "Prefetch": "prefetch"}


@pytest.mark.skipif(not LOGS.is_dir(), reason="the rendered lines are not beside this checkout")
def test_every_rendered_line_is_read_as_its_kind() -> None:
    """Each line of each version and mode is one event of its own kind, with its version and its figures."""
    rows = _rendered()
    assert len({version for version, _ in rows}) > 10
    for version, line in rows:
        (event,) = _parse(line + "\n", version)
        message = line.split("LMCache ", 1)[1]
        kind = next((kind for word, kind in KINDS.items() if word in message), "failure")
        assert (event.kind, event.version) == (kind, version), line
        if "bench-000123" in line:
            assert event.request_id == "bench-000123", line
        if kind in {"load", "store"}:
            assert event.tokens, line
        assert event.rank == (1 if "rank=1" in line else 0 if "TP0" in line else None), line
        if kind != "failure":
            assert _log(line + "\n").events[0].kind == kind, "the lines alone tell what they are"


@pytest.mark.skipif(not LOGS.is_dir(), reason="the rendered lines are not beside this checkout")
def test_what_stands_around_a_line_changes_nothing_of_it() -> None:
    """In colour or not, at another level, behind vLLM's name of the process: the same event, but for who wrote it."""
    for version, line in _rendered():
        (event,) = _parse(line + "\n", version)
        bare = line[line.index("[20") :]
        others = [_parse(text + "\n", version) for text in (bare, f"(Worker_TP3 pid=77) {line}")]
        if event.kind != "failure":
            others.append(_parse(bare.replace("LMCache INFO:", "LMCache DEBUG:") + "\n", version))
        for (other,) in others:
            kept = {"line": event.line, "rank": event.rank, "pid": event.pid}
            assert other._replace(**kept) == event, line


@pytest.mark.skipif(not LOGS.is_dir(), reason="the live logs are not beside this checkout")
@pytest.mark.parametrize("way", ["sync", "async"])
def test_every_move_of_a_log_inside_the_engine_is_an_event(way: str) -> None:
    """vLLM's own log with LMCache in it: each lookup, load and store is one event, joined by the request's id."""
    text = (LOGS / f"vllm-0.31-lmcache-0.5.5-inprocess-{way}.log").read_text(encoding="utf-8")
    log = _log(text)
    assert (log.version, log.cut) == ("0.5.5", ())
    kinds = {kind: sum(event.kind == kind for event in log.events) for kind in ("lookup", "load", "store", "prefetch")}
    assert kinds == {
        "lookup": text.count("Reqid: "),
        "load": text.count("Retrieved "),
        "store": text.count("Stored "),
        "prefetch": text.count("Responding to scheduler"),
    }
    loads = {event.request_id: event for event in log.events if event.kind == "load"}
    lookups = {event.request_id: event for event in log.events if event.kind == "lookup"}
    assert loads
    for request_id, load in loads.items():
        assert (load.total_tokens, load.tokens) == (lookups[request_id].hit_tokens, lookups[request_id].hit_tokens)
