"""The remote tier of an arm: how many Valkeys, how each is set up, and which keys go where."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from harness.config.strict import Bytes, Rate, Seconds, Strict

_CORES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")

Eviction = Literal["noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random"]


class Link(Strict):
    """A rate-limited TCP link in front of each Valkey instance: bytes a second in each direction, one-way delay."""

    bandwidth: Rate
    latency: Seconds = 0.0


class Valkey(Strict):
    """The remote tier: how many instances, which keys go where, over which link.

    `io_threads`, `maxmemory` and `eviction` are each instance's own settings of those names; without `maxmemory`
    nothing is evicted. `cpus` has the cores of each instance, such as `["0", "2-3,6"]`.
    """

    instances: Annotated[int, Field(ge=1, le=64)]
    placement: Literal["chunk", "rank", "consistent"] = "chunk"
    link: Link | None = None
    io_threads: Annotated[int, Field(ge=1, le=128)] = 1
    maxmemory: Annotated[Bytes, Field(gt=0)] | None = None
    eviction: Eviction = "noeviction"
    cpus: Annotated[tuple[str, ...], Field(strict=False)] | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.cpus is not None:
            if len(self.cpus) != self.instances:
                raise ValueError(f"cpus names {len(self.cpus)} sets of cores for {self.instances} instances")
            wrong = next((cores for cores in self.cpus if _CORES.fullmatch(cores) is None), None)
            if wrong is not None:
                raise ValueError(f"cpus: {wrong!r} is not a list of cores such as 2-3,6")
        if self.eviction != "noeviction" and self.maxmemory is None:
            raise ValueError(f"eviction {self.eviction} never happens without maxmemory: add `maxmemory: 1GiB`")
        return self
