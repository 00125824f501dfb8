"""The columns of a run folder's parquet files (contract.md), in order.

History: 1 - first version.
2 - requests: what the engine said of its own times, what became of the lookup, the parts of TTFT; loads: the process.
3 - requests: how the chunks of a prompt lie on the instances of the remote tier; the response's own id.
"""

import pyarrow as pa

SCHEMA_VERSION = 3

_I, _F, _S = pa.int64(), pa.float64(), pa.string()


def _columns(dtype: pa.DataType, names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, dtype) for name in names.split()]


REQUESTS = pa.schema(
    [
        *_columns(_S, "run_id experiment arm workload pass"),
        *_columns(_I, "repeat seq row"),
        *_columns(_S, "session request_id source"),
        *_columns(_I, "due_ns sent_ns headers_ns first_token_ns last_token_ns done_ns t0_unix_ns"),
        ("chunk_ns", pa.list_(_I)),
        *_columns(_I, "prompt_tokens_planned prompt_tokens max_tokens completion_tokens"),
        *_columns(_I, "cached_tokens local_cached_tokens external_cached_tokens predicted_cached_tokens"),
        *_columns(_F, "ttft_ms ttft_due_ms tpot_ms"),
        ("itl_ms", pa.list_(_F)),
        *_columns(_F, "e2el_ms send_lag_ms"),
        ("outcome", _S),
        ("status", _I),
        ("error", _S),
        *_columns(_F, "queue_ms load_ms recompute_ms"),
        ("output_text", _S),
        ("attempts", _I),
        *_columns(_F, "server_queue_ms server_prefill_ms"),
        ("lookup", _S),
        *_columns(_I, "loaded_keys loaded_l1_keys loaded_l2_keys loaded_bytes"),
        *_columns(_F, "loaded_bytes_per_s load_wait_ms delivery_ms unexplained_ms placement_slowdown"),
        ("response_id", _S),
    ]
)

LOADS = pa.schema(
    [
        *_columns(_S, "run_id arm"),
        *_columns(_I, "repeat t_unix_ns"),
        *_columns(_S, "instance version kind request_id"),
        *_columns(_I, "seq tokens hit_tokens need_tokens keys l1_keys l2_keys bytes"),
        *_columns(_F, "cost_ms gb_per_s"),
        ("line", _S),
        ("line_no", _I),
        ("file", _S),
        *_columns(_I, "computed_tokens total_tokens rank pid"),
    ]
)

SAMPLES = pa.schema(
    [
        *_columns(_S, "run_id arm"),
        *_columns(_I, "repeat t_ns"),
        *_columns(_S, "source instance name"),
        ("labels", pa.map_(_S, _S)),
        ("value", _F),
    ]
)

PASSES = pa.schema(
    [
        *_columns(_S, "run_id arm workload pass"),
        *_columns(_I, "repeat requests"),
        *_columns(
            _I,
            "prefix_cache_queries prefix_cache_hits external_prefix_cache_queries external_prefix_cache_hits "
            "prompt_tokens_local_compute prompt_tokens_local_cache_hit prompt_tokens_external_kv_transfer "
            "valkey_get_calls valkey_bytes_out",
        ),
        *_columns(_F, "ttft_ms_p50 ttft_ms_mean ttft_ms_p99 duration_s"),
    ]
)

SCHEMAS = {"requests": REQUESTS, "loads": LOADS, "samples": SAMPLES, "passes": PASSES}
