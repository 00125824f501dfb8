"""harness.experiment.log_reading: which logs of an arm are read, and what is wrong in each."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.config import Arm, LMCache
from harness.experiment.log_reading import reading_log
from harness.stack.running import EngineAddress

MOVED = "[2026-11-29 20:01:02,345] LMCache INFO: Stored 256 tokens in 0.001 seconds (f.py:1:lmcache.v1.m)\n"
UNHEALTHY = "[2026-11-29 20:01:03,345] LMCache WARNING: LMCache server is unhealthy — degraded (f.py:1:lmcache.v1.m)\n"


class Place(SimpleNamespace):
    """What reading adds to."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        super().__init__(caveats=[], logs={}, journal=SimpleNamespace(extend=self.events.extend, flush=lambda: None))


def _read(folder: Path, *, lmcache: str, vllm: str) -> Place:
    """An arm with LMCache beside its engine that runs while both logs are written."""
    place = Place()
    address = EngineAddress("http://127.0.0.1:1", None, None, folder / "lmcache.log", (), folder / "vllm.log")
    stack = SimpleNamespace(engines=(address,), processes=("vllm",), follower=None, url="http://127.0.0.1:1")
    session: Any = SimpleNamespace(
        arm=Arm(name="valkey-1", lmcache=LMCache(mode="mp", l1="1GiB")), stack=stack, place=place
    )
    prepared: Any = SimpleNamespace(
        experiment=SimpleNamespace(engine=SimpleNamespace(tensor_parallel=1)), model=SimpleNamespace(kv_bytes=4096)
    )
    for name in ("lmcache.log", "vllm.log"):
        (folder / name).write_text("")
    with reading_log(prepared, session):
        (folder / "lmcache.log").write_text(lmcache)
        (folder / "vllm.log").write_text(vllm)
    return place


@pytest.mark.parametrize(("said", "kinds"), [("INFO ready\n", []), (UNHEALTHY, ["unhealthy_backend_skipped"])])
def test_an_engines_log_tells_what_its_connector_met(tmp_path: Path, said: str, kinds: list[str]) -> None:
    """Moves stand in LMCache's log, and what the connector went without in vLLM's, maybe none of LMCache."""
    place = _read(tmp_path, lmcache=MOVED, vllm=said)
    assert [caveat.kind for caveat in place.caveats] == kinds
    assert [(event.kind, event.file) for event in place.events] == [
        ("store", "lmcache.log"),
        *(("failure", "vllm.log") for _ in kinds),
    ]
    assert place.logs["valkey-1"].was_read


def test_a_started_lmcache_that_says_nothing_is_a_caveat(tmp_path: Path) -> None:
    """Its own log is not let pass, whatever the engine's says."""
    place = _read(tmp_path, lmcache="hello\n", vllm=UNHEALTHY)
    assert [caveat.kind for caveat in place.caveats] == ["lmcache_log"]
    assert not place.logs["valkey-1"].was_read
