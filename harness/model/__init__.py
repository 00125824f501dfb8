"""What theory says: KV bytes per token, and when loading KV beats computing it. Pure arithmetic on explicit inputs.

Fits, queues and the verdict load scipy: import them from their modules (fit, load, uncertain, verdict).
"""

from harness.model.cost import BreakEven, CostModel, Reach
from harness.model.estimate import Estimate
from harness.model.kv_bytes import KvBytes, Ranks, kv_bytes, kv_bytes_per_token

__all__ = ["BreakEven", "CostModel", "Estimate", "KvBytes", "Ranks", "Reach", "kv_bytes", "kv_bytes_per_token"]
