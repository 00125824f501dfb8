"""What a hit's bytes take by themselves, so that T0 can be told from a measured hit."""

from harness.schedule import PlannedRequest
from harness.sim.caches import Caches, CacheSpec
from harness.sim.links import Links
from harness.sim.service import Service


def idle_transfer_s(request: PlannedRequest, caches: CacheSpec, service: Service) -> float:
    """How long idle instances take to bring every chunk of a prompt; 0 where host memory keeps what was stored."""
    empty = Caches(caches)
    if empty.tiers is None or empty.tiers.host is not None:
        return 0.0
    chunks = empty.prompt(request).chunks
    return Links(service.instance_bytes_per_s).move(empty.tiers.parts(chunks, range(len(chunks))), 0.0)
