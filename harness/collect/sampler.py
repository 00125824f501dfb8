"""Samples of every server while an experiment runs, into a sink."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Self

import httpx
import valkey.asyncio as valkey

from harness.collect import lmcache_metrics, vllm_metrics
from harness.collect.exposition import MetricSample, samples
from harness.collect.gpu import GpuReader
from harness.collect.host import HostReader
from harness.collect.valkey_info import connect, read_valkey
from harness.collect.vllm_metrics import read_vllm
from harness.errors import CollectError
from harness.records import ServerSample

Sink = Callable[[Sequence[ServerSample]], None]
Http = Callable[[float], httpx.AsyncClient]
_TIMEOUT_S = 2.0
_INSIDE_EVERY = 4
_LARGEST_SHARE = 0.1  # of one core, that rounds may take: it is taken from the servers they look at


@dataclass(frozen=True, slots=True)
class Targets:
    """What to sample for one arm and repeat; what is not there is left out. `services` maps a name to its root pid.

    `lmcache_inside_urls` are pages that the engine's own ranks serve, which costs them about 5 ms each time: they are
    asked in one round of four.
    """

    arm: str
    repeat: int
    vllm_metrics_urls: tuple[str, ...] = ()
    lmcache_metrics_urls: tuple[str, ...] = ()
    lmcache_inside_urls: tuple[str, ...] = ()
    valkey_urls: tuple[str, ...] = ()
    services: Mapping[str, int] = field(default_factory=dict)


class Sampler:
    """An async context: from entry to exit it reads all targets every `interval_s` and gives `sink` what they said.

    `now_ns` is the time since the run's origin; a sample carries the time its answer arrived. Where rounds would take
    more than a tenth of a core, they come less often. A target that does not answer within two seconds, or not with
    what was asked for, is a gap, counted in `gaps` by instance, and `reasons` has the last reason: no sample, never a
    zero and never an exception. What the sink raises ends the sampling and is raised at exit. `http` makes the client
    that asks, given a timeout in s.
    """

    def __init__(
        self,
        targets: Targets,
        sink: Sink,
        *,
        now_ns: Callable[[], int],
        interval_s: float = 0.5,
        http: Http | None = None,
    ) -> None:
        self.gaps: Counter[str] = Counter()
        self.reasons: dict[str, str] = {}
        self._targets = targets
        self._sink = sink
        self._now_ns = now_ns
        self._interval_s = interval_s
        self._http = http or _plain
        self._host = HostReader(targets.services)
        self._gpus = GpuReader()
        self._rounds = 0
        self._asked: dict[str, tuple[str, ...] | None] = {}
        self._stop = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await self._task

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self._http(_TIMEOUT_S))
            stack.enter_context(self._gpus)
            valkeys = [await stack.enter_async_context(connect(url)) for url in self._targets.valkey_urls]
            while not self._stop.is_set():
                began, spent_s = loop.time(), time.thread_time()
                self._sink(await self._round(client, valkeys))
                spent_s = time.thread_time() - spent_s
                await self._pause(began + max(self._interval_s, spent_s / _LARGEST_SHARE) - loop.time())

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return

    async def _round(self, client: httpx.AsyncClient, valkeys: Sequence[valkey.Valkey]) -> list[ServerSample]:
        targets = self._targets
        scrapes = [self._valkey(f"valkey-{index}", instance) for index, instance in enumerate(valkeys)]
        for index, url in enumerate(targets.vllm_metrics_urls):
            scrapes.append(self._engine(client, _numbered("vllm", index), url))
        inside = targets.lmcache_inside_urls if self._rounds % _INSIDE_EVERY == 0 else ()
        self._rounds += 1
        for index, url in enumerate((*targets.lmcache_metrics_urls, *inside)):
            scrapes.append(self._lmcache(client, _numbered("lmcache", index), url))
        groups = await asyncio.gather(*scrapes)
        if targets.services:
            groups.append(self._services())
        groups.append([self._sample(self._now_ns(), "gpu", *reading) for reading in self._gpus.read()])
        return [sample for group in groups for sample in group]

    async def _engine(self, client: httpx.AsyncClient, instance: str, url: str) -> list[ServerSample]:
        """vLLM's page: at first the whole of it, then only the series seen there, if the server can leave the rest out.

        LMCache's own series are on it too where it runs inside the engine; those cannot be asked for by name.
        """
        names, prefixes = vllm_metrics.SERIES, lmcache_metrics.PREFIXES
        asked = self._asked.get(instance, ())
        found = await self._page(client, instance, url, names, prefixes, asked or ())
        if asked:
            if not found:
                self._asked[instance] = None
        elif found and asked is not None:
            inside = any(line.name.startswith(prefixes) for line in found)
            self._asked[instance] = None if inside else tuple(sorted({line.name for line in found}))
        t_ns = self._now_ns()
        return [
            self._sample(
                t_ns,
                "lmcache" if line.name.startswith(prefixes) else "vllm",
                instance,
                line.name,
                line.value,
                line.labels,
            )
            for line in found
        ]

    async def _lmcache(self, client: httpx.AsyncClient, instance: str, url: str) -> list[ServerSample]:
        found = await self._page(client, instance, url, (), lmcache_metrics.PREFIXES)
        t_ns = self._now_ns()
        return [self._sample(t_ns, "lmcache", instance, line.name, line.value, line.labels) for line in found]

    async def _page(
        self,
        client: httpx.AsyncClient,
        instance: str,
        url: str,
        names: Collection[str],
        prefixes: tuple[str, ...],
        asked: Collection[str] = (),
    ) -> tuple[MetricSample, ...]:
        try:
            found = samples(await read_vllm(client, url, asked), names, prefixes)
        except CollectError as error:
            return self._gap(instance, error.what)
        return found or self._gap(instance, "its answer has none of the series that are known here")

    def _gap(self, instance: str, reason: str) -> tuple[MetricSample, ...]:
        self.gaps[instance] += 1
        self.reasons[instance] = reason
        return ()

    async def _valkey(self, name: str, client: valkey.Valkey) -> list[ServerSample]:
        reading = await read_valkey(client)
        t_ns = self._now_ns()
        if reading is None:
            self._gap(name, "INFO was not answered")
            return []
        told = {field: value for field, value in asdict(reading).items() if value is not None}
        return [self._sample(t_ns, "valkey", name, field, float(value)) for field, value in told.items()]

    def _services(self) -> list[ServerSample]:
        t_ns = self._now_ns()
        values = self._host.read(t_ns)
        for service in self._targets.services.keys() - {one.service for one in values}:
            self._gap(service, "its processes are gone")
        return [self._sample(t_ns, "host", one.service, one.name, one.value, one.labels) for one in values]

    def _sample(
        self, t_ns: int, source: str, instance: str, name: str, value: float, labels: Mapping[str, str] | None = None
    ) -> ServerSample:
        return ServerSample(
            arm=self._targets.arm,
            repeat=self._targets.repeat,
            t_ns=t_ns,
            source=source,
            instance=instance,
            name=name,
            value=value,
            labels=labels or {},
        )


def _plain(timeout_s: float) -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=timeout_s, trust_env=False)


def _numbered(name: str, index: int) -> str:
    """The instance `index` (from 0) of its kind: the first goes without a number, as its service does."""
    return name if index == 0 else f"{name}-{index}"
