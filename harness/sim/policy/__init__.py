"""What a full cache gives up first: one interface, one file a policy."""

from collections.abc import Callable, Mapping

from harness.sim.policy.fifo import Fifo
from harness.sim.policy.lfu import Lfu
from harness.sim.policy.lru import Lru
from harness.sim.policy.policy import Policy
from harness.sim.policy.random_choice import RandomChoice
from harness.sim.policy.s3_fifo import S3Fifo

POLICIES: Mapping[str, Callable[[int], Policy]] = {
    "lru": lambda capacity: Lru(),
    "fifo": lambda capacity: Fifo(),
    "lfu": lambda capacity: Lfu(),
    "s3-fifo": S3Fifo,
    "random": lambda capacity: RandomChoice(),
}
"""By name: a policy for a cache of so many objects."""

__all__ = ["POLICIES", "Policy"]
