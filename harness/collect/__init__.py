"""Everything seen besides the requests themselves: metrics, logs, INFO, the host."""

from harness.collect.faults import Fault, file_faults, find_faults
from harness.collect.key_layout import KeyLayout
from harness.collect.lmcache_log import LmcacheLog, parse_log
from harness.collect.log_files import LogTail, following, log_files
from harness.collect.sampler import Sampler, Targets
from harness.collect.valkey_info import ValkeyReading, flush_valkeys, read_valkeys, until_settled
from harness.collect.vllm_metrics import (
    CacheConfig,
    parse_cache_config,
    parse_counters,
    parse_gauges,
    read_vllm,
    until_idle,
)

__all__ = [
    "CacheConfig",
    "Fault",
    "KeyLayout",
    "LmcacheLog",
    "LogTail",
    "Sampler",
    "Targets",
    "ValkeyReading",
    "file_faults",
    "find_faults",
    "flush_valkeys",
    "following",
    "log_files",
    "parse_cache_config",
    "parse_counters",
    "parse_gauges",
    "parse_log",
    "read_valkeys",
    "read_vllm",
    "until_idle",
    "until_settled",
]
