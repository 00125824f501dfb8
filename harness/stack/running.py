"""A stack that runs: started in order, each service proved ready, stopped in reverse whatever happens."""

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from prometheus_client.parser import text_string_to_metric_families

from harness.config import Arm, Attach, Engine
from harness.errors import StackError
from harness.stack import lmcache, valkey, valkey_cluster, vllm
from harness.stack.blueprint import Blueprint, EngineCommands, EnginePorts, Ports
from harness.stack.ports import free_ports, free_row, listens
from harness.stack.process import Command, Process
from harness.stack.tiny_model import FIRST_TOKEN

_LINK_DEADLINE_S = 20.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where one vLLM and its LMCache answer and log; None for what is not there.

    `lmcache_log` tells of KV moving; `connector_log` is vLLM's, where LMCache is beside it and its connector says there
    what went wrong. `lmcache_pages` are LMCache's metrics, of each rank if it is inside the engine.
    """

    url: str
    metrics_url: str | None
    lmcache_url: str | None = None
    lmcache_log: Path | None = None
    lmcache_pages: tuple[str, ...] = ()
    connector_log: Path | None = None


@dataclass(frozen=True, slots=True)
class RunningStack:
    """Where the services of one arm answer and log, and the processes behind them (none when attached).

    `engines` share the load; `follower` is the command that writes the log of an attached LMCache. `remote_urls` are
    the Valkeys as LMCache reaches them, through their links; `valkey_urls` lead to them directly. `resets` are the
    caches that may, and can, be emptied: engine, l1, valkey.
    """

    arm: str
    model: str
    engines: tuple[EngineAddress, ...]
    valkey_urls: tuple[str, ...]
    processes: tuple[Process, ...]
    facts: Mapping[str, Any]
    follower: Process | None = None
    remote_urls: tuple[str, ...] = ()
    resets: frozenset[str] = frozenset()

    @property
    def url(self) -> str:
        """Where the first engine answers."""
        return self.engines[0].url

    @property
    def pids(self) -> dict[str, int]:
        """The leader of each service's session, by service name."""
        return {process.command.name: process.pid for process in self.processes}

    async def died(self, spared: Collection[Process] = ()) -> StackError:
        """Wait until any service but those `spared` ends before it was told to; the error that says which.

        Never returns when attached.
        """
        watched = [process for process in self.processes if process not in spared]
        if not watched:
            await asyncio.Event().wait()
        waits = {asyncio.create_task(process.exited()): process for process in watched}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        process = waits[done.pop()]
        return process.failure(f"{process.command.name} died while it was in use (status {process.returncode})")


def ports_for(arm: Arm, engine: Engine) -> list[int]:
    """Free ports for `draw`. Where each rank of an engine serves a page, the first has neighbours for the others."""
    ports = free_ports(Ports.needed(arm, engine.replicas))
    if arm.lmcache is not None and arm.lmcache.mode == "inprocess" and engine.ranks > 1:
        for at in Ports.pages(engine.replicas):
            while not {*ports}.isdisjoint(range(row := free_row(engine.ranks), row + engine.ranks)):
                pass
            ports[at] = row
    return ports


@contextlib.asynccontextmanager
async def started(blueprint: Blueprint, engine: Engine, logs: Path, say: Say) -> AsyncIterator[RunningStack]:
    """Start every process of `blueprint`, yield the stack when it answers, stop all of it in reverse order.

    Raises StackError, with the failing service's last lines, when one does not get ready within its deadline.
    """
    ports = blueprint.ports
    seats = list(zip(blueprint.engines, ports.engines, strict=True))
    async with contextlib.AsyncExitStack() as exits, httpx.AsyncClient(timeout=5.0) as client:
        processes: list[Process] = []

        async def start(command: Command) -> Process:
            say(f"starting {command.name}")
            process = await Process.start(command, logs / f"{command.name}.log")
            exits.push_async_callback(_stop_shielded, process)
            processes.append(process)
            return process

        for command, port in zip(blueprint.valkeys, ports.valkeys, strict=True):
            await (await start(command)).ready(lambda port=port: valkey.ready(port), valkey.READY_DEADLINE_S)  # type: ignore[misc]
        remote = blueprint.arm.valkey
        if remote is not None and remote.cluster:
            say("joining the Valkeys into a cluster")
            await valkey_cluster.join(ports.valkeys, ports.links)
        if blueprint.link is not None:
            link = await start(blueprint.link)
            for port in ports.links:
                await link.ready(lambda port=port: valkey.ready(port), _LINK_DEADLINE_S)  # type: ignore[misc]
        if blueprint.lmcache_config is not None:
            blueprint.lmcache_file.parent.mkdir(parents=True, exist_ok=True)
            blueprint.lmcache_file.write_text(blueprint.lmcache_config)
        # vLLM imports for much longer than LMCache before it looks for it, so the two may start at once.
        caches = [(await start(one.lmcache), own) for one, own in seats if one.lmcache is not None]
        servers = [(await start(one.vllm), own) for one, own in seats]
        for cache, own in caches:
            await cache.ready(lambda own=own: lmcache.ready(client, own.lmcache_http), lmcache.READY_DEADLINE_S)  # type: ignore[misc]
        facts = []
        for server, own in servers:
            facts.append(await _answering(server, own.vllm, engine, client, say))
        for process in processes:
            process.note_segments()
        yield RunningStack(
            arm=blueprint.arm.name,
            model=vllm.served_name(engine),
            engines=tuple(_address(own, one, blueprint, engine, logs) for one, own in seats),
            valkey_urls=_valkey_urls(blueprint),
            processes=tuple(processes),
            facts=facts[0],
            remote_urls=_valkey_urls(blueprint, through_links=blueprint.link is not None),
            resets=_resets(blueprint),
        )


async def _answering(server: Process, port: int, engine: Engine, client: httpx.AsyncClient, say: Say) -> dict[str, Any]:
    """Wait until a vLLM is ready and has answered a request; what it says of itself."""
    url = f"http://127.0.0.1:{port}"

    async def healthy() -> bool:
        return await listens(port) and await vllm.ready(client, url)

    await server.ready(healthy, vllm.READY_DEADLINE_S)
    say(f"asking {server.command.name} for a first token")
    wrong = await vllm.answers(client, url, vllm.served_name(engine), [FIRST_TOKEN] * 2)
    if wrong is not None:
        raise server.failure(f"vllm is healthy but does not answer a request ({wrong})")
    return await _facts(client, url, engine, server)


def _address(own: EnginePorts, one: EngineCommands, blueprint: Blueprint, engine: Engine, logs: Path) -> EngineAddress:
    """Where one engine of a started arm and its LMCache answer and log."""
    url, lmcache_url = f"http://127.0.0.1:{own.vllm}", f"http://127.0.0.1:{own.lmcache_http}"
    vllm_log = logs / f"{one.vllm.name}.log"
    if one.lmcache is not None:
        log = logs / f"{one.lmcache.name}.log"
        return EngineAddress(url, f"{url}/metrics", lmcache_url, log, (f"{lmcache_url}/metrics",), vllm_log)
    if blueprint.lmcache_config is None:
        return EngineAddress(url, f"{url}/metrics")
    ports = range(own.lmcache_http, own.lmcache_http + engine.ranks)
    pages = tuple(f"http://127.0.0.1:{port}/metrics" for port in ports)
    return EngineAddress(url, f"{url}/metrics", None, vllm_log, pages)


def _resets(blueprint: Blueprint) -> frozenset[str]:
    """All that was started here, but for a host tier inside vLLM's workers, which cannot be asked; others' by leave."""
    lmcache, remote = blueprint.arm.lmcache, blueprint.arm.valkey
    resets = {"engine"}
    if lmcache is None or lmcache.mode == "mp" or lmcache.store_policy == "skip_l1":
        resets.add("l1")
    if remote is None or not remote.urls or remote.flush:
        resets.add("valkey")
    return frozenset(resets)


def _valkey_urls(blueprint: Blueprint, *, through_links: bool = False) -> tuple[str, ...]:
    """The instances started here, or those the arm names, with what is needed to enter."""
    remote, ports = blueprint.arm.valkey, blueprint.ports
    if remote is None or not remote.urls:
        return tuple(f"valkey://127.0.0.1:{port}" for port in (ports.links if through_links else ports.valkeys))
    query = urlencode(lmcache.credentials(remote))
    return tuple(f"{url}?{query}" if query else url for url in remote.urls)


@contextlib.asynccontextmanager
async def attached(
    arm: str, model: str, attach: Attach, metrics_urls: Sequence[str | None], logs: Path
) -> AsyncIterator[RunningStack]:
    """A stack that somebody else runs, and that was found to answer; stops nothing of theirs.

    `metrics_urls` has one for each of its servers, None for one that shows none. Their LMCache's log, where a command
    prints it, is written to `logs` for as long as this is open.
    """
    log = Path(attach.lmcache_log) if attach.lmcache_log else None
    follower = None
    async with contextlib.AsyncExitStack() as exits:
        if attach.lmcache_log_command is not None:
            log = logs / "lmcache.log"
            follower = await Process.start(Command("lmcache-log", tuple(shlex.split(attach.lmcache_log_command))), log)
            exits.push_async_callback(_stop_shielded, follower)
        first, *more = zip(attach.urls, metrics_urls, strict=True)
        pages = () if attach.lmcache_url is None else (f"{attach.lmcache_url}/metrics",)
        yield RunningStack(
            arm=arm,
            model=model,
            engines=(EngineAddress(*first, attach.lmcache_url, log, pages), *(EngineAddress(*one) for one in more)),
            valkey_urls=attach.valkey_urls,
            processes=(),
            facts={},
            follower=follower,
            remote_urls=attach.valkey_urls,
            resets=frozenset(attach.resets),
        )


async def _stop_shielded(process: Process) -> None:
    """Stop to the end even when the run itself is being cancelled (Ctrl-C must not leave half a stack)."""
    stopping = asyncio.ensure_future(process.stop())
    while not stopping.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(stopping)


async def _facts(client: httpx.AsyncClient, url: str, engine: Engine, server: Process) -> dict[str, Any]:
    """What vLLM says of itself; refuses a KV cache of another size than the config asks for."""
    text = (await client.get(f"{url}/metrics")).text
    version = (await client.get(f"{url}/version")).json().get("version")
    size = None
    for family in text_string_to_metric_families(text):
        if family.name == "vllm:cache_config_info":
            size = family.samples[0].labels.get("kv_cache_size_tokens")
    if engine.kv_cache_tokens is not None and size != str(engine.kv_cache_tokens):
        raise StackError(
            f"vLLM reports a KV cache of {size} tokens, the config asks for exactly {engine.kv_cache_tokens}",
            where=str(server.log),
            remedy="set engine.max_model_len to a multiple of block_size that fits into kv_cache_tokens",
        )
    return {"vllm": version, "kv_cache_size_tokens": size}
