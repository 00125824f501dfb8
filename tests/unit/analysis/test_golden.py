"""A summary.json as it must stay: made again from the same made-up run, number by number.

Written by `python -m tests.unit.analysis.test_golden` after a change that is meant to change it; the difference is then
what the change does to everybody's numbers.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from harness.analysis import Slo, summarise, to_json
from harness.records import Run
from tests.fakes.runs import FakePass, fake_run

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "summary.json"
SECOND = 1_000_000_000


def waits(factor: float, climb: float = 0.0) -> list[float | None]:
    """150 TTFTs without any chance in them; the last fails."""
    values: list[float | None] = [
        factor * (100 + 60 * math.sin(seq) ** 2 + 300 * (seq % 40 == 7)) * (1 + climb * seq / 150) for seq in range(149)
    ]
    return [*values, None]


def golden_run() -> Run:
    """Recompute, one Valkey that climbs, four that do not; a trace and a pass over documents."""
    times = {
        "sent_ns": 5 * SECOND,
        "done_ns": 160 * SECOND,
        "completion_tokens": 8,
        "itl_ms": [5.0, 7.0],
        "tpot_ms": 6.0,
    }
    hits = times | {"cached_tokens": 64, "external_cached_tokens": 64, "e2el_ms": 900.0, "load_ms": 20.0}
    counters = {
        "prefix_cache_queries": 15_000,
        "prefix_cache_hits": 0,
        "external_prefix_cache_queries": 15_000,
        "external_prefix_cache_hits": 9_536,
        "prompt_tokens_local_compute": 5_464,
        "valkey_get_calls": 149,
    }
    return fake_run(
        [
            FakePass("recompute", waits(1.0), columns=times),
            FakePass("valkey-1", waits(4.0, climb=2.0), columns=hits, counters=counters),
            FakePass("valkey-4", waits(0.6), columns=hits, counters=counters),
            *(
                FakePass(arm, [50.0 + at for at in range(10)], name="first", workload="docs")
                for arm in ("recompute", "valkey-4")
            ),
        ],
        run_id="golden",
        probe={"prefill_tokens_per_s": 9200.0, "kv_bytes_per_token": 4096, "bstar_bytes_per_s": 37.7e6},
        arms={"valkey-1": {"link_bytes_per_s": 12.8e6, "instances": 1, "rho": 1.13}},
        versions={"vllm": "0.31.0"},
    )


def document() -> dict[str, Any]:
    """What summary.json would hold."""
    return to_json(summarise(golden_run(), slos=[Slo("ttft", 150.0)]))


def test_golden() -> None:
    """Every finding, caveat and word is what it was; numbers to nine digits."""
    now, then = _flat(document()), _flat(json.loads(GOLDEN.read_text()))
    assert {path: leaf for path, leaf in now.items() if not isinstance(leaf, float)} == {
        path: leaf for path, leaf in then.items() if not isinstance(leaf, float)
    }
    numbers = [{path: leaf for path, leaf in one.items() if isinstance(leaf, float)} for one in (now, then)]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-9)


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Every leaf by its path, so that a difference names itself."""
    if isinstance(value, dict):
        return {key: leaf for name, part in value.items() for key, leaf in _flat(part, f"{path}.{name}").items()}
    if isinstance(value, list):
        return {key: leaf for at, part in enumerate(value) for key, leaf in _flat(part, f"{path}[{at}]").items()}
    return {path: value}


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(document(), indent=1) + "\n")
