"""One arm, workload and pass in the formats of other tools: vLLM's `bench serve` and aiperf's records.

vLLM 0.31, benchmarks/serve.py, `--save-result --save-detailed`: times in s, a failed request has TTFT 0 and no gaps;
`queue_times` are from due to sent.
aiperf 0.13, profile_export.jsonl: one MetricRecordInfo a line, times in ms and in ns since 1970.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import HarnessError
from harness.records import Outcome, Run

_VLLM_LATENCIES = {"ttft": "ttft_ms", "tpot": "tpot_ms", "itl": "itl_ms", "e2el": "e2el_ms"}


def cell_of(run: Run, arm: str | None, workload: str | None, pass_name: str | None) -> tuple[str, str, str]:
    """The arm, workload and pass that are meant; what is not given must be the only one (of passes: the last).

    Raises HarnessError that lists what there is.
    """
    table = run.requests.select(["arm", "workload", "pass"]).to_pandas()
    table = table[~table["pass"].isin(["warmup", "probe", "prewarm"])].drop_duplicates()
    for column, given in (("arm", arm), ("workload", workload), ("pass", pass_name)):
        there = list(dict.fromkeys(table[column]))
        obvious = there[-1] if len(there) == 1 or (column == "pass" and there) else None
        wanted = given or obvious
        if wanted not in there:
            what = f"no {column} {wanted!r} in this run" if wanted else f"which {column}?"
            options = ", ".join(there) or "none: nothing was measured"
            raise HarnessError(what, where=str(run.folder), remedy=f"--{column} one of: {options}")
        table = table[table[column] == wanted]
    first = table.iloc[0]
    return str(first["arm"]), str(first["workload"]), str(first["pass"])


def requests_of(run: Run, cell: tuple[str, str, str]) -> pd.DataFrame:
    """All columns of the requests of that arm, workload and pass, by repeat and seq."""
    table = run.requests.to_pandas()
    own = (table["arm"] == cell[0]) & (table["workload"] == cell[1]) & (table["pass"] == cell[2])
    requests: pd.DataFrame = table[own].sort_values(["repeat", "seq"], ignore_index=True)
    return requests


def vllm_json(run: Run, cell: tuple[str, str, str]) -> dict[str, Any]:
    """The document that `vllm bench serve --save-result --save-detailed` writes."""
    rows = requests_of(run, cell)
    ok = rows[rows["outcome"] == Outcome.OK.value]
    duration_s = sum(_span_s(part) for _, part in rows.groupby("repeat"))
    prompt, output = (float(ok[name].fillna(0).sum()) for name in ("prompt_tokens", "completion_tokens"))
    rate = (run.meta.get("plans") or {}).get(f"{cell[1]}/0", {}).get("rate_per_s")
    model = ((run.meta.get("spec") or {}).get("engine") or {}).get("model")
    document: dict[str, Any] = {
        "date": str(run.meta.get("utc", "")).replace("T", "-").rstrip("Z"),
        "endpoint_type": "openai",
        "backend": "openai",
        "label": "/".join((str(run.meta.get("run_id")), *cell)),
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": len(rows),
        "request_rate": "inf" if rate is None else rate,
        "burstiness": None,
        "max_concurrency": None,
        "duration": duration_s,
        "completed": len(ok),
        "failed": len(rows) - len(ok),
        "total_input_tokens": int(prompt),
        "total_output_tokens": int(output),
        "request_throughput": _per(len(ok), duration_s),
        "request_goodput": None,
        "output_throughput": _per(output, duration_s),
        "total_token_throughput": _per(prompt + output, duration_s),
        "input_lens": [int(value) for value in rows["prompt_tokens"].fillna(rows["prompt_tokens_planned"])],
        "output_lens": [int(value) for value in rows["completion_tokens"].fillna(0)],
        "ttfts": [_seconds(value) or 0.0 for value in rows["ttft_ms"]],
        "itls": [[value / 1000 for value in _list(gaps)] for gaps in rows["itl_ms"]],
        "latencies": [_seconds(value) or 0.0 for value in rows["e2el_ms"]],
        "start_times": [None if pd.isna(value) else value / 1e9 for value in rows["sent_ns"].astype(float)],
        "queue_times": [_seconds(value) or 0.0 for value in rows["send_lag_ms"]],
        "generated_texts": [_text(text) for text in rows["output_text"]],
        "errors": [_error(row) for row in _lines(rows[["outcome", "error"]])],
    }
    document |= _busiest_second(ok) | {"rtfx": 0.0}
    for name, column in _VLLM_LATENCIES.items():
        document |= _statistics(name, [gap for gaps in ok[column] for gap in _list(gaps)])
    return document


def _busiest_second(ok: pd.DataFrame) -> dict[str, float]:
    """Most tokens that came, and most requests that were under way, in one second from the first sent on."""
    sent_s = ok["sent_ns"].to_numpy(dtype=np.float64, na_value=np.nan) / 1e9
    if np.isnan(sent_s).all():
        return {"max_output_tokens_per_s": 0.0, "max_concurrent_requests": 0}
    sent_s -= np.nanmin(sent_s)
    tokens: Counter[int] = Counter()
    under_way: Counter[int] = Counter()
    for begin_s, ttft, gaps, e2el in zip(sent_s, ok["ttft_ms"], ok["itl_ms"], ok["e2el_ms"], strict=True):
        if not any(pd.isna(one) for one in (begin_s, ttft, e2el)):
            tokens.update((begin_s + np.cumsum([ttft, *_list(gaps)]) / 1000).astype(int).tolist())
            under_way.update(range(int(begin_s), int(begin_s + e2el / 1000) + 1))
    return {
        "max_output_tokens_per_s": float(max(tokens.values(), default=0)),
        "max_concurrent_requests": max(under_way.values(), default=0),
    }


def aiperf_lines(run: Run, cell: tuple[str, str, str]) -> Iterator[dict[str, Any]]:
    """One record a request that was sent, as in aiperf's profile_export.jsonl; requests never sent have none there."""
    for number, row in enumerate(_lines(requests_of(run, cell))):
        if row["sent_ns"] == row["sent_ns"] and row["sent_ns"] is not None:
            failed = row["outcome"] != Outcome.OK.value
            yield {
                "metadata": _aiperf_metadata(number, row),
                "metrics": _aiperf_failed(row) if failed else _aiperf_metrics(row),
                "error": _aiperf_error(row) if failed else None,
            }


def _aiperf_metadata(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    cancelled = row["outcome"] == Outcome.CANCELLED.value
    end_ns = _unix_ns(row, "done_ns") or _unix_ns(row, "sent_ns")
    return {
        "session_num": number,
        "x_request_id": _text(row["request_id"]),
        "x_correlation_id": _text(row["session"]) or _text(row["request_id"]),
        "conversation_id": _text(row["session"]) or f"row-{row['row']}",
        "turn_index": 0,
        "request_start_ns": _unix_ns(row, "sent_ns"),
        "request_ack_ns": _unix_ns(row, "headers_ns"),
        "request_end_ns": end_ns,
        "worker_id": "kvreplay",
        "record_processor_id": "kvreplay",
        "benchmark_phase": "profiling",
        "was_cancelled": cancelled,
        "cancellation_time_ns": end_ns if cancelled else None,
    }


def _aiperf_metrics(row: Mapping[str, Any]) -> dict[str, Any]:
    values = {
        "input_sequence_length": (row["prompt_tokens"], "tokens"),
        "output_sequence_length": (row["completion_tokens"], "tokens"),
        "time_to_first_token": (row["ttft_ms"], "ms"),
        "request_latency": (row["e2el_ms"], "ms"),
        "inter_token_latency": (row["tpot_ms"], "ms"),
    }
    known = {name: {"value": value, "unit": unit} for name, (value, unit) in values.items() if not pd.isna(value)}
    gaps = _list(row["itl_ms"])
    return known | ({"inter_chunk_latency": {"value": gaps, "unit": "ms"}} if gaps else {})


def _aiperf_failed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"error_isl": {"value": int(row["prompt_tokens_planned"]), "unit": "tokens"}}


def _aiperf_error(row: Mapping[str, Any]) -> dict[str, Any]:
    status = row["status"]
    code = None if pd.isna(status) else int(status)
    return {"code": code, "type": row["outcome"], "message": _text(row["error"]) or row["outcome"]}


def _unix_ns(row: Mapping[str, Any], column: str) -> int | None:
    value = row[column]
    return None if pd.isna(value) else int(row["t0_unix_ns"]) + int(value)


def _statistics(name: str, values_ms: Sequence[float]) -> dict[str, float | None]:
    present = np.array([value for value in values_ms if not pd.isna(value)], dtype=np.float64)
    if not present.size:
        return {f"{word}_{name}_ms": None for word in ("mean", "median", "std", "p99")}
    figures = {
        "mean": present.mean(),
        "median": np.median(present),
        "std": present.std(),
        "p99": np.percentile(present, 99),
    }
    return {f"{word}_{name}_ms": float(value) for word, value in figures.items()}


def _lines(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


def _list(value: Any) -> list[float]:
    """The numbers of a list column, or the one of a plain column."""
    if value is None:
        return []
    if isinstance(value, (list, np.ndarray)):
        return [float(one) for one in value if not pd.isna(one)]
    return [] if pd.isna(value) else [float(value)]


def _span_s(rows: pd.DataFrame) -> float:
    span = (rows["done_ns"].max() - rows["sent_ns"].min()) / 1e9
    return 0.0 if pd.isna(span) else float(span)


def _per(amount: float, seconds: float) -> float | None:
    return amount / seconds if seconds > 0 else None


def _seconds(value_ms: float | None) -> float | None:
    return None if pd.isna(value_ms) else float(value_ms) / 1000


def _error(row: Mapping[str, Any]) -> str:
    return "" if row["outcome"] == Outcome.OK.value else f"{row['outcome']}: {_text(row['error'])}".rstrip(": ")


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)
