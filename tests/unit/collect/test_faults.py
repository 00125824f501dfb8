"""harness.collect.faults: what goes wrong in LMCache, by name."""

from pathlib import Path

import pytest

from harness.collect import Fault, file_faults, find_faults, parse_log

LOGS = next((up / "shared/data/logs" for up in Path(__file__).parents if (up / "shared/data/logs").is_dir()), Path("-"))


def _faults(*lines: tuple[str, str]) -> tuple[Fault, ...]:
    text = [
        f"[2026-11-29 20:01:{second:02d},345] LMCache {level}: {message} (f.py:1:lmcache.v1.m)\n"
        for second, (level, message) in enumerate(lines)
    ]
    return find_faults(parse_log(text, arm="a", repeat=0, instance="i", file="lmcache.log", version="0.5.5").events)


@pytest.mark.parametrize(
    ("name", "level", "message"),
    [
        (
            "lookup_timed_out",
            "WARNING",
            "Request cmpl-kvr-r1-4-0-1a2b3c4d is still waiting for async lookup after 3 seconds, returning 0",
        ),
        ("lookup_timed_out", "WARNING", "LOOKUP to tcp://h:5555 timed out after 300s. Marking server as unhealthy."),
        ("load_timed_out", "WARNING", "batched get blocking timeout, trigger cancel the future task"),
        (
            "retrieved_fewer_than_expected",
            "ERROR",
            "Request cmpl-x-0-1a2b3c4dThe number of retrieved tokens is less than the expected number of tokens!",
        ),
        ("retrieved_fewer_than_expected", "ERROR", "Num retrieved tokens: 0, num expected tokens: 4096"),
        (
            "retrieved_fewer_than_expected",
            "ERROR",
            "Request cmpl-x-0-1a2b3c4d failed to load 256 tokens across 2 blocks",
        ),
        (
            "l1_out_of_memory",
            "WARNING",
            "Local cpu memory under pressure so choosing to store only 3 total chunks of KV cache.",
        ),
        ("unhealthy_backend_skipped", "WARNING", "LMCache is unhealthy, skipping retrieve operation"),
        (
            "ranks_differ",
            "WARNING",
            "Lookup results (number of hit tokens) differ across (TP and PP) ranks: [256, 0].",
        ),
        (
            "double_free",
            "WARNING",
            "Ref count of MemoryObj 5242880is negative: -1.Double free occurred somewhere.Setting ref count back to 0",
        ),
        ("used_after_free", "WARNING", "Trying to access an invalidated MemoryObj"),
        ("unhealthy_backend_skipped", "WARNING", "LMCache server is unhealthy — entering degraded mode"),
        (
            "computed_for_its_load",
            "WARNING",
            "Bypassing LMCache for request cmpl-x-0-1a2b3c4d after a failed async KV load; recomputed",
        ),
        ("store_failed", "WARNING", "Store task 3 to adapter 0 failed for keys: []"),
        ("other_failures", "ERROR", "Something new"),
    ],
)
def test_a_known_fault_has_its_name_and_shows_its_lines(name: str, level: str, message: str) -> None:
    """A fault is named by its line, counted, explained, and shown with file and line."""
    (fault,) = _faults((level, message), (level, message))
    assert (fault.name, fault.count) == (name, 2)
    assert fault.evidence[1].startswith("lmcache.log:2: [2026-11-29")
    assert message in fault.evidence[1]
    assert fault.text.startswith(fault.meaning)
    assert fault.remedy


def test_a_quiet_log_has_no_faults() -> None:
    """Moves are none, and neither is what a healthy server warns of."""
    assert _faults(("INFO", "Stored 256 tokens in 0.001 seconds"), ("WARNING", "memory pinning is not supported")) == ()


TIMED_OUT = ("WARNING", "Request cmpl-x-0-1a2b3c4d is still waiting for async lookup after 3 seconds, returning 0")
LATE = ("INFO", "Responding to scheduler for lookup id cmpl-x-0-1a2b3c4d with retrieved length 1280")


def test_a_client_that_loses_its_completions_is_told_from_a_slow_one() -> None:
    """Timeouts one after another with nothing answered in between: lost. An answer that comes late: only slow."""
    assert [fault.name for fault in _faults(*[TIMED_OUT] * 3)] == ["lookup_timed_out", "completions_lost"]
    assert [fault.name for fault in _faults(*[TIMED_OUT] * 2)] == ["lookup_timed_out"]
    assert [fault.name for fault in _faults(TIMED_OUT, TIMED_OUT, LATE, TIMED_OUT)] == ["lookup_timed_out"]


def test_an_engine_that_dies_in_lmcache_says_so_in_vllms_words() -> None:
    """The exception of a traceback through LMCache is a failure, with request, process and time; others are none."""
    head = "(EngineCore pid=10267) ERROR 11-29 20:01:05 [core.py:1435] "
    asked = "KeyError: 'cmpl-kvr-r1a1-7-0-8e3196c5'"
    through = [
        '  File "/x/lmcache/v1/lookup_client/lmcache_async_lookup_client.py", line 175, in lookup_cache',
        "    t",
    ]
    around = ['  File "/x/vllm/v1/engine/core.py", line 1, in run', "    step()"]
    start = "[2026-11-29 20:01:02,345] LMCache INFO: Stored 256 tokens in 0.001 seconds (f.py:1:lmcache.v1.m)"

    def events(*texts: str) -> list[tuple[str, str | None, int | None, int]]:
        lines = [f"{line}\n" for line in (start, *(head + text for text in texts))]
        log = parse_log(lines, arm="a", repeat=0, instance="i", file="vllm.log", version="0.5.5")
        stored, *rest = log.events
        faults = [fault.name for fault in find_faults(log.events)]
        return [
            (name, one.request_id, one.pid, one.t_unix_ns - stored.t_unix_ns)
            for name, one in zip(faults, rest, strict=True)
        ]

    first = "Traceback (most recent call last):"
    died = ("asked_after_timeout", "kvr-r1a1-7", 10267, 2_655_000_000)
    assert events(first, *around, *through, asked) == [died]
    assert events(first, *around, asked) == []
    other = "AttributeError: 'NoneType' object has no attribute 'unflatten'"
    assert events(first, *through, *around, other) == [("other_failures", None, 10267, 2_655_000_000)]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "failed_for_its_load",
            "ERROR 11-29 20:01:05 [scheduler.py:3340] Failing 1 request(s) due to KV load failure (policy=fail)",
        ),
        (
            "computed_for_its_load",
            "WARNING 11-29 20:01:05 [scheduler.py:3349] Recovered from KV load failure: 1 request(s) rescheduled",
        ),
    ],
)
def test_what_vllm_does_without_kv_that_was_promised_is_told(name: str, line: str) -> None:
    """vLLM's own lines, in a log in which LMCache reports no move; before LMCache's first word they have no date."""
    said = "[2026-11-29 20:01:02,345] LMCache WARNING: LMCache server is healthy again (f.py:1:lmcache.v1.m)\n"
    failed = f"(EngineCore pid=13755) {line} (512 tokens affected).\n"
    for lines, known in (([said, failed], True), ([failed, said], False)):
        log = parse_log(lines, arm="a", repeat=0, instance="i", file="vllm.log", version="0.5.5")
        faults = find_faults(log.events)
        assert [fault.name for fault in faults] == ([name] if known else [])
        assert [event.pid for event in log.events] == ([13755] if known else [])


def test_what_is_wrong_with_a_file_is_a_fault_too() -> None:
    """Lines that stayed cut, and more than one server's start."""
    assert file_faults([], ["f:1: start"]) == ()
    names = [fault.name for fault in file_faults(["f:1: Stored 12"], ["f:1: start", "f:9: start"])]
    assert names == ["cut_lines", "two_writers"]


@pytest.mark.skipif(not LOGS.is_dir(), reason="the live logs are not beside this checkout")
def test_the_faults_of_live_logs() -> None:
    """Loads that fell behind show as lookups timed out, not as lost completions; the other logs show no such thing."""
    names = {}
    for path in LOGS.glob("*.log"):
        with path.open(encoding="utf-8") as lines:
            log = parse_log(lines, arm="a", repeat=0, instance="i", file=path.name)
        names[path.name] = {fault.name: fault.count for fault in find_faults(log.events)}
    asynchronous = names.pop("vllm-0.31-lmcache-0.5.5-inprocess-async.log")
    assert asynchronous["lookup_timed_out"] > 50
    assert asynchronous["double_free"] == 21 * 5, "each of five chunks of 21 loads, by LMCache's own Valkey client"
    assert all("lookup_timed_out" not in found for found in names.values())
    assert not any(found for name, found in names.items() if "-mp-" in name)
