"""What should happen: the same plan through simulated caches and queues."""

from harness.sim.cache import simulate_cache
from harness.sim.caches import CacheSpec
from harness.sim.host import HostSpec
from harness.sim.infinite import infinite_cache_hits, mean_hit_tokens
from harness.sim.lmcache import LMCacheSpec
from harness.sim.queue import simulate_queue
from harness.sim.remote import RemoteSpec
from harness.sim.service import Service
from harness.sim.simulated import Simulated, TierTokens
from harness.sim.transfer import idle_transfer_s

__all__ = [
    "CacheSpec",
    "HostSpec",
    "LMCacheSpec",
    "RemoteSpec",
    "Service",
    "Simulated",
    "TierTokens",
    "idle_transfer_s",
    "infinite_cache_hits",
    "mean_hit_tokens",
    "simulate_cache",
    "simulate_queue",
]
