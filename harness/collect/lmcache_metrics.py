"""The few series of LMCache's /metrics (multiprocess mode) that are worth a sample; names as in LMCache 0.5.5.

Traps: `l2_name` is the adapter's type, so that N Valkey instances share one series (per-instance figures come from
Valkey's INFO); hit counters count the contiguous prefix only, in tokens of whole chunks.
"""

SERIES = frozenset(
    {
        "lmcache_mp_lookups_requests_total",
        "lmcache_mp_lookup_requested_tokens_total",
        "lmcache_mp_lookup_hit_tokens_total",
        "lmcache_mp_lookup_hit_l1_tokens_total",
        "lmcache_mp_lookup_hit_l2_tokens_total",
        "lmcache_mp_num_chunks_loaded_total",
        "lmcache_mp_l1_memory_usage_bytes",
        "lmcache_mp_l1_evicted_chunks_total",
        "lmcache_mp_l1_allocation_failure_chunks_total",
        "lmcache_mp_l2_prefetch_failure_chunks_total",
        "lmcache_mp_l2_load_completed_requests_total",
        "lmcache_mp_l2_store_completed_requests_total",
        "lmcache_mp_active_prefetch_jobs",
        "lmcache_mp_num_inflight_l2_loads",
        "lmcache_mp_num_inflight_l2_stores",
        "lmcache_mp_event_bus_dropped_events_total",
    }
)
"""Lookups and their hits, what L1 holds and loses, what moves to and from L2, and events LMCache itself dropped."""
