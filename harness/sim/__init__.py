"""What should happen: the same plan through simulated caches."""

from harness.sim.infinite import infinite_cache_hits, mean_hit_tokens

__all__ = ["infinite_cache_hits", "mean_hit_tokens"]
