"""The series of LMCache that are sampled: all of them, by their prefixes, but no buckets.

`lmcache_mp_*` are those of the multiprocess server's /metrics; `lmcache:*` those inside the engine, on a page of each
rank (LMCache's internal API server, which engines started here have) and on vLLM's where PROMETHEUS_MULTIPROC_DIR is
set. Traps: `l2_name` is the adapter's type, so that N Valkey instances share one series (per-instance figures come from
Valkey's INFO); the buckets of its throughput histograms begin at 5 GB/s, so only their sum and count say anything,
where GB is 10^9 in `lmcache_mp_*` and 2^30 in `lmcache:*`; hit counters count the contiguous prefix only, in tokens of
whole chunks; "finished" is not "succeeded".
"""

PREFIXES = ("lmcache_mp_", "lmcache:")
