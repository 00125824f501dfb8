"""harness.collect.lmcache_log: LMCache's lines as events."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.collect import KeyLayout, parse_log
from harness.errors import CollectError
from harness.records import LoadEvent

LOGS = Path(__file__).parents[3].parent / "shared" / "data" / "logs"
BANNER = "LMCache v0.5.5 (g05a013b2)\n"
COUNT = st.integers(0, 10**7)


def _parse(text: str, version: str = "0.5.5", layout: KeyLayout | None = None) -> tuple[LoadEvent, ...]:
    return parse_log(
        text.splitlines(keepends=True),
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
        "Prefetch request completed (L1+L2): 10/16 prefix hits (4 L1, 6 L2) in 12.3 ms (request_id=7)",
        "Prefetch request completed: 10 of 16 keys",
        "Retrieved 2560 tokens in 12 ms",
        "Stored 2048 out of total 2048 tokens. size: 0.2188 GB, cost 14.7797 ms, throughput: 14.8007 GB/s",
    ],
)
def test_a_changed_format_is_an_error_that_shows_the_line(message: str) -> None:
    """A line about a move that cannot be read names its file, its line and itself; it is never passed over."""
    with pytest.raises(CollectError) as caught:
        _parse(BANNER + _line(message) + _line("Stored 256 tokens in 0.001 seconds"))
    assert caught.value.where == "lmcache.log:2"
    assert message in caught.value.what


def test_only_the_last_line_may_be_torn() -> None:
    """The line LMCache was writing when it died is left out; the same text in mid-file is an error."""
    whole, torn = _line("Stored 256 tokens in 0.001 seconds"), "[2026-11-29 20:01:02,345] LMCache INFO: Stored 25"
    assert len(_parse(whole + torn)) == 1
    with pytest.raises(CollectError):
        _parse(torn + "\n" + whole)
    with pytest.raises(CollectError):
        parse_log([torn, whole], arm="a", repeat=0, instance="lmcache", file="f", version="0.5.5")


def test_a_log_that_is_not_lmcaches_is_an_error() -> None:
    """No line of LMCache at all is a wrong file, not an idle server; an idle server has an empty table."""
    with pytest.raises(CollectError) as caught:
        _parse("INFO:     Started server process [24094]\n")
    assert caught.value.where == "lmcache.log"
    assert _parse(BANNER + "INFO:     Started server process [24094]\n") == ()


def test_an_unknown_version_is_an_error() -> None:
    """A version whose lines nobody has read is refused, even if the lines look the same."""
    with pytest.raises(CollectError, match=r"0\.6\.0"):
        _parse(_line("Stored 256 tokens in 0.001 seconds"), version="0.6.0")


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


@pytest.mark.skipif(not LOGS.is_dir(), reason="the rendered lines are not beside this checkout")
def test_the_rendered_lines_of_a_known_version_are_read_or_refused() -> None:
    """Each multiprocess line of 0.5.5 and 0.5.6 is an event; an in-process line among them is refused, not dropped."""
    rows = [row.split("\t", 1) for row in (LOGS / "lmcache-lines.tsv").read_text(encoding="utf-8").splitlines()]
    read = {"0.5.5": 0, "0.5.6": 0}
    for version, line in rows:
        if version in read and ("retained keys" in line or " seconds" in line):
            assert len(_parse(line + "\n", version)) == 1
            read[version] += 1
        elif version in read and "req_id=" in line and "Reqid" not in line and "external" not in line:
            with pytest.raises(CollectError):
                _parse(line + "\n", version)
    assert read == {"0.5.5": 2, "0.5.6": 2}
