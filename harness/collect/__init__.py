"""Everything seen besides the requests themselves: metrics, logs, INFO, the host."""

from harness.collect.lmcache_log import KNOWN_VERSIONS, KeyLayout, parse_log
from harness.collect.sampler import Sampler, Targets
from harness.collect.valkey_info import ValkeyReading, flush_valkeys, read_valkeys, until_settled
from harness.collect.vllm_metrics import kv_cache_size_tokens, parse_counters, parse_gauges, read_vllm, until_idle

__all__ = [
    "KNOWN_VERSIONS",
    "KeyLayout",
    "Sampler",
    "Targets",
    "ValkeyReading",
    "flush_valkeys",
    "kv_cache_size_tokens",
    "parse_counters",
    "parse_gauges",
    "parse_log",
    "read_valkeys",
    "read_vllm",
    "until_idle",
    "until_settled",
]
