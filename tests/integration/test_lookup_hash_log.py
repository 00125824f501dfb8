"""LMCache's lookup-hash log, written by the installed LMCache and read as a trace."""

from pathlib import Path

import pytest

from harness.trace import ReadOptions, read_trace

pytestmark = pytest.mark.integration
LOG = ReadOptions(output_tokens=32)


def test_what_lmcache_writes_is_read(tmp_path: Path) -> None:
    """Lines written by the installed LMCache's own subscriber are read."""
    pytest.importorskip("lmcache.v1.mp_observability.subscribers.logging.lookup_hash")
    from lmcache.v1.mp_observability.event import Event, EventType  # noqa: PLC0415
    from lmcache.v1.mp_observability.subscribers.logging import lookup_hash  # noqa: PLC0415

    log = lookup_hash.LookupHashLoggingSubscriber(lookup_hash.LookupHashLogConfig(output_dir=str(tmp_path)))
    write = log.get_subscriptions()[EventType.MP_LOOKUP]
    for number, hashes in enumerate(([b"\xab\x01", b"\xcd"], [b"\xab\x01"])):
        meta = {"request_id": f"r{number}", "model_name": "m", "chunk_size": 256, "chunk_hashes": hashes}
        event = Event(event_type=EventType.MP_LOOKUP, session_id="", metadata=meta | {"seq_len": 256 * len(hashes) + 9})
        event.timestamp = 1711929600.5 + number
        write(event)
    log.shutdown()

    trace = read_trace(tmp_path, None, LOG)

    assert [(one.request_id, one.input_tokens, one.blocks) for one in trace.requests] == [
        ("r0", 521, (0, 1)),
        ("r1", 265, (0,)),
    ]
