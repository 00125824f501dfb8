"""The remote tier of an arm: how many Valkeys, how each is set up, and which keys go where."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from harness.config.strict import Bytes, Rate, Seconds, Strict

_CORES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_RANGE = re.compile(r"\[(\d+)-(\d+)\]")
_MOST_INSTANCES = 64
_FEWEST_CLUSTER_NODES = 3

ValkeyUrl = Annotated[str, Field(pattern=r"^((valkey|redis|resp)s?://[^\s/:@]+:[0-9]+/?|unix:///\S+)$")]

Eviction = Literal["noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random"]


class Link(Strict):
    """A rate-limited TCP link in front of each Valkey instance: bytes a second in each direction, one-way delay."""

    bandwidth: Rate
    latency: Seconds = 0.0


class Valkey(Strict):
    """The remote tier: how many instances are started, or where those that run already are; which keys go where.

    `urls` names running instances: a template such as `resp://valkey-{rank}:6379` (then `instances` says how many), a
    range such as `valkey-[0-7]:6379`, a list of either. Nothing is started then, and nothing emptied unless `flush`.
    Credentials are taken from the variables that `username_env` and `password_env` name; `ca_file` is for TLS.
    `key_prefix` keeps this arm's keys apart from those of others: a key of LMCache says nothing of dtype or layout.

    Of instances started here, `io_threads`, `maxmemory` and `eviction` are each one's own settings of those names;
    without `maxmemory` nothing is evicted. `cpus` has the cores of each, such as `["0", "2-3,6"]`, `link` stands in
    front of each. `on_loss` is what a run does when one of them ends: `stop` the arm, or `continue` without its chunks.
    `cluster` joins them (three or more) into one Valkey Cluster, which places keys itself.
    """

    instances: Annotated[int, Field(ge=1, le=64)]
    urls: Annotated[tuple[ValkeyUrl, ...], Field(strict=False)] = ()
    username_env: str | None = None
    password_env: str | None = None
    ca_file: str | None = None
    flush: bool = False
    key_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]*$")] = ""
    placement: Literal["chunk", "rank", "consistent"] = "chunk"
    cluster: bool = False
    link: Link | None = None
    io_threads: Annotated[int, Field(ge=1, le=128)] = 1
    maxmemory: Annotated[Bytes, Field(gt=0)] | None = None
    eviction: Eviction = "noeviction"
    cpus: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    on_loss: Literal["stop", "continue"] = "stop"

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, given: Any) -> Any:
        """Templates and ranges of `urls` written out, so that whoever reads the config finds one URL an instance."""
        if not isinstance(given, dict) or not given.get("urls"):
            return given
        urls, count = given["urls"], given.get("instances")
        each = [urls] if isinstance(urls, str) else list(urls)
        expanded = tuple(one for url in each for one in expand(str(url), count))
        return {**given, "urls": expanded, "instances": len(expanded) if count is None else count}

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

    @model_validator(mode="after")
    def _external(self) -> Self:
        if not self.urls:
            given = [name for name in ("username_env", "password_env", "ca_file", "flush") if getattr(self, name)]
            if given:
                raise ValueError(f"{given[0]} is for instances that run already: name them in `urls`")
            return self
        if len(self.urls) != self.instances:
            raise ValueError(
                f"urls names {len(self.urls)} and instances says {self.instances}: write a template with {{rank}}, a "
                "range such as valkey-[0-7], or as many URLs"
            )
        twice = next((url for url in self.urls if self.urls.count(url) > 1), None)
        if twice is not None:
            raise ValueError(f"urls names {twice} twice")
        ours = {"link", "io_threads", "maxmemory", "eviction", "cpus", "on_loss", "cluster"} & self.model_fields_set
        if ours:
            raise ValueError(f"{min(ours)} is for instances started here, and urls names running ones")
        return self

    @model_validator(mode="after")
    def _cluster(self) -> Self:
        if self.cluster:
            if self.instances < _FEWEST_CLUSTER_NODES:
                raise ValueError(f"a Valkey Cluster has at least 3 nodes, instances says {self.instances}")
            if self.link is not None:
                raise ValueError("a cluster redirects clients to its nodes themselves: no link can stand in front")
            if self.placement != "chunk":
                raise ValueError(f"a cluster places keys by their hash slot: placement {self.placement} cannot be had")
        return self

    @property
    def started(self) -> int:
        """How many instances are started here."""
        return 0 if self.urls else self.instances


def expand(url: str, count: int | None) -> tuple[str, ...]:
    """A URL's `{rank}` replaced by 0 to count - 1, its range `[0-7]` by each of its numbers; itself without either.

    Raises ValueError for a template without a count, more than one range, or a range from high to low.
    """
    if "{rank}" in url:
        if not isinstance(count, int):
            raise ValueError(f"{url} has a {{rank}}: say how many, such as instances: 8")
        return tuple(url.replace("{rank}", str(rank)) for rank in range(count))
    ranges = _RANGE.findall(url)
    if not ranges:
        return (url,)
    first, last = (int(number) for number in ranges[0])
    if len(ranges) > 1 or last < first or last - first >= _MOST_INSTANCES:
        raise ValueError(f"{url}: one range from low to high, of at most {_MOST_INSTANCES}")
    return tuple(_RANGE.sub(str(number), url) for number in range(first, last + 1))
