"""What theory says: KV bytes per token, and when loading KV beats computing it. Pure arithmetic on explicit inputs."""

from harness.model.cost import CostModel
from harness.model.kv_bytes import kv_bytes_per_token

__all__ = ["CostModel", "kv_bytes_per_token"]
