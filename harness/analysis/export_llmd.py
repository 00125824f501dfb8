"""One arm, workload and pass as llm-d's benchmark report, format 0.2 (llmdbenchmark/analysis/benchmark_report)."""

import hashlib
import json
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.export import requests_of
from harness.records import Outcome, Run

_PERCENTILES = {"p1": 1, "p5": 5, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
_LATENCIES = {
    "time_to_first_token": ("ttft_ms", "ms"),
    "time_per_output_token": ("tpot_ms", "ms/token"),
    "request_latency": ("e2el_ms", "ms"),
}


def llmd_report(run: Run, cell: tuple[str, str, str]) -> dict[str, Any]:
    """The report as plain values. What was not measured is not in it; `inter_token_latency` is of all gaps."""
    rows = requests_of(run, cell)
    ok = rows[rows["outcome"] == Outcome.OK.value]
    gaps = np.concatenate([np.empty(0), *(np.asarray(one, dtype=np.float64) for one in ok["itl_ms"].dropna())])
    latency = {name: _statistics(ok[column], unit) for name, (column, unit) in _LATENCIES.items()}
    latency["inter_token_latency"] = _statistics(pd.Series(gaps), "ms/token")
    requests = {
        "total": len(rows),
        "failures": len(rows) - len(ok),
        "input_length": _statistics(ok["prompt_tokens"], "count"),
        "output_length": _statistics(ok["completion_tokens"], "count"),
    }
    aggregate = {"requests": _known(requests), "latency": _known(latency), "throughput": _throughput(rows, ok)}
    return {
        "version": "0.2",
        "run": {
            "uid": "-".join((str(run.meta.get("run_id")), *cell)),
            "eid": str(run.meta.get("run_id")),
            "description": f"{run.meta.get('experiment')}: arm {cell[0]}, {cell[1]}/{cell[2]}",
            "keywords": [str(run.meta.get("experiment")), *cell],
        },
        "scenario": {"load": _load(run, cell, rows)},
        "results": {"request_performance": {"aggregate": _known(aggregate)}},
    }


def _load(run: Run, cell: tuple[str, str, str], rows: pd.DataFrame) -> dict[str, Any]:
    spec = run.meta.get("spec") or {}
    own: dict[str, Any] = next((one for one in spec.get("workloads") or () if one.get("name") == cell[1]), {})
    plan = (run.meta.get("plans") or {}).get(f"{cell[1]}/0") or {}
    lengths = rows["prompt_tokens_planned"].astype(float)
    fixed = lengths.nunique() == 1
    length = {"distribution": "fixed" if fixed else "other", "value": float(lengths.mean())}
    edges = {} if fixed else {"min": int(lengths.min()), "max": int(lengths.max())}
    standardized = {
        "tool": "kvreplay",
        "tool_version": str((run.meta.get("versions") or {}).get("kvreplay", "unknown")),
        "source": "sampled" if own.get("trace") else "random",
        "input_seq_len": length | edges,
        "rate_qps": plan.get("rate_per_s"),
        "concurrency": (own.get("passes") or {}).get("concurrency"),
    }
    config_id = plan.get("hash") or hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()
    return {"metadata": {"cfg_id": config_id}, "standardized": _known(standardized), "native": {"config": own}}


def _throughput(rows: pd.DataFrame, ok: pd.DataFrame) -> dict[str, Any] | None:
    spans = [(part["done_ns"].max() - part["sent_ns"].min()) / 1e9 for _, part in rows.groupby("repeat")]
    seconds = float(np.nansum(spans)) if spans else 0.0
    if not seconds > 0:
        return None
    prompt, output = (float(ok[name].fillna(0).sum()) for name in ("prompt_tokens", "completion_tokens"))
    return {
        "input_token_rate": {"units": "tokens/s", "mean": prompt / seconds},
        "output_token_rate": {"units": "tokens/s", "mean": output / seconds},
        "total_token_rate": {"units": "tokens/s", "mean": (prompt + output) / seconds},
        "request_rate": {"units": "queries/s", "mean": len(ok) / seconds},
    }


def _statistics(values: "pd.Series[float]", units: str) -> dict[str, Any] | None:
    present = values.dropna().to_numpy(dtype=np.float64)
    if not present.size:
        return None
    shares = np.percentile(present, list(_PERCENTILES.values()))
    return {
        "units": units,
        "mean": float(present.mean()),
        "stddev": float(present.std()),
        "min": float(present.min()),
        **{name: float(value) for name, value in zip(_PERCENTILES, shares, strict=True)},
        "max": float(present.max()),
    }


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
