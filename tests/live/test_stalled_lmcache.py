"""LMCache's server hangs for a while, as on a host that swaps: vLLM takes it for dead, and a load is refused."""

import os
import signal
import time
from pathlib import Path

import pytest

from harness.collect import find_faults, parse_log
from tests.live.served import CHUNKS_TOKENS, PROMPTS, Served, agree

UNHEALTHY, HEALTHY = "LMCache server is unhealthy", "LMCache server is healthy again"
TRIES = 3  # a heartbeat every 10 s: one that comes between waking and loading makes the server healthy too early


def _until_said(log: Path, words: str, times: int) -> None:
    for _ in range(900):
        if log.read_text(errors="replace").count(words) >= times:
            return
        time.sleep(0.1)
    raise AssertionError(f"{log} does not say {words!r} {times} times")


def test_a_load_refused_by_a_hung_server_is_computed_and_named(four: Served) -> None:
    """The engine lives, the answer is the computed one, hits are back afterwards, and both faults have their names."""
    log = Path(four.state["logs"]) / "vllm.log"
    four.empty_engine()
    first = [four.ask(prompt) for prompt in range(PROMPTS)]
    for stall in range(1, TRIES + 1):
        four.empty_engine()
        os.kill(four.state["pids"]["lmcache"], signal.SIGSTOP)
        try:
            _until_said(log, UNHEALTHY, stall)
        finally:
            os.kill(four.state["pids"]["lmcache"], signal.SIGCONT)
        after = [four.ask(prompt) for prompt in range(PROMPTS)]
        agree(after, first)
        _until_said(log, f"{HEALTHY} — resuming", stall)
        if after[0][2] == 0:
            break
    else:
        pytest.fail(f"no load was refused in {TRIES} stalls")
    four.empty_engine()
    assert [four.ask(prompt)[2] for prompt in range(PROMPTS)] == [CHUNKS_TOKENS] * PROMPTS
    with log.open(errors="replace") as lines:
        read = parse_log(lines, arm="a", repeat=0, instance="lmcache", file=log.name, may_be_silent=True)
    assert {fault.name for fault in find_faults(read.events)} == {"unhealthy_backend_skipped", "computed_for_its_load"}
