"""Small runs made by hand: what a run folder holds once it is read back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.records import SCHEMAS, Run

PROMPT_TOKENS = 100


@dataclass(frozen=True, slots=True)
class FakePass:
    """One pass: `ttft_ms` by seq, None for a request that timed out. `counters` are columns of passes.parquet.

    `columns` are further columns of requests.parquet, the same in every row that succeeded.
    """

    arm: str
    ttft_ms: Sequence[float | None]
    workload: str = "trace"
    name: str = "replay"
    repeat: int = 0
    send_lag_ms: float = 0.0
    prompt_tokens: int | None = PROMPT_TOKENS
    counters: Mapping[str, int] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)


def fake_run(passes: Sequence[FakePass], **meta: Any) -> Run:
    """A run of these passes, with the tables' real schemas, and a run.json in which every row planned is there."""
    planned = {f"{p.arm}/{p.workload}/{p.name}/{p.repeat}": len(p.ttft_ms) for p in passes}
    measured = {(p.arm, p.workload, p.repeat) for p in passes}
    proofs = [
        {"arm": arm, "workload": workload, "repeat": repeat, "kind": "cold", "proved": True, "detail": ""}
        for arm, workload, repeat in sorted(measured)
    ]
    spec = {"arms": [fake_arm(arm) for arm in dict.fromkeys(p.arm for p in passes)]}
    defaults = {"planned": planned, "state_proofs": proofs, "spec": spec, "status": "complete", "experiment": "fake"}
    return Run(
        folder=Path("results/fake"),
        meta=defaults | meta,
        requests=_table("requests", [row for p in passes for row in _requests(p)]),
        loads=_table("loads", []),
        samples=_table("samples", []),
        passes=_table("passes", [_pass(p) for p in passes]),
    )


def fake_arm(name: str) -> dict[str, Any]:
    """An arm of a spec: `valkey-N` has N instances, `host` only LMCache, any other name neither."""
    remote = name.startswith("valkey")
    return {
        "name": name,
        "lmcache": {"mode": "mp"} if remote or name == "host" else None,
        "valkey": {"instances": int(name.removeprefix("valkey-"))} if remote else None,
    }


def _requests(p: FakePass) -> list[dict[str, Any]]:
    return [
        {
            "arm": p.arm,
            "workload": p.workload,
            "pass": p.name,
            "repeat": p.repeat,
            "seq": seq,
            "row": seq,
            "source": "live",
            "due_ns": 5_000_000_000 + seq * 1_000_000_000,
            "prompt_tokens_planned": PROMPT_TOKENS,
            "prompt_tokens": p.prompt_tokens,
            "cached_tokens": 0,
            "ttft_ms": ttft,
            "ttft_due_ms": None if ttft is None else ttft + p.send_lag_ms,
            "send_lag_ms": p.send_lag_ms,
            "outcome": "timeout" if ttft is None else "ok",
            **({} if ttft is None else p.columns),
        }
        for seq, ttft in enumerate(p.ttft_ms)
    ]


def _pass(p: FakePass) -> dict[str, Any]:
    key = {"arm": p.arm, "workload": p.workload, "pass": p.name, "repeat": p.repeat}
    return key | {"requests": len(p.ttft_ms)} | dict(p.counters)


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    schema = SCHEMAS[name]
    return pa.Table.from_pylist([{column: row.get(column) for column in schema.names} for row in rows], schema=schema)
