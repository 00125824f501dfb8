"""An arm on paper: every process it needs, with its whole command line. Pure; `kvreplay plan` prints it."""

import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config import Arm, Engine, Valkey
from harness.stack import lmcache, lmcache_inprocess, valkey, vllm
from harness.stack.interpreter import Interpreter
from harness.stack.process import Command


@dataclass(frozen=True, slots=True)
class EnginePorts:
    """The ports of one vLLM and its LMCache; inside it each rank serves metrics, from `lmcache_http` on."""

    vllm: int
    lmcache_zmq: int
    lmcache_http: int


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one arm, all on 127.0.0.1. A Valkey Cluster has no links, and its bus where they would be."""

    engines: tuple[EnginePorts, ...]
    valkeys: tuple[int, ...]
    links: tuple[int, ...]

    @staticmethod
    def needed(arm: Arm, replicas: int = 1) -> int:
        """How many ports this arm takes."""
        return 3 * replicas + 2 * _started(arm)

    @staticmethod
    def pages(replicas: int) -> range:
        """Which of the ports dealt out are each engine's `lmcache_http`."""
        return range(2, 3 * replicas, 3)

    @staticmethod
    def of(arm: Arm, replicas: int, free: Sequence[int]) -> "Ports":
        """Deal `needed(arm, replicas)` free ports out."""
        engines, rest = free[: 3 * replicas], free[3 * replicas :]
        instances = _started(arm)
        return Ports(
            tuple(EnginePorts(*engines[at : at + 3]) for at in range(0, 3 * replicas, 3)),
            tuple(rest[:instances]),
            tuple(rest[instances:]),
        )


@dataclass(frozen=True, slots=True)
class EngineCommands:
    """One vLLM and, where that is a process, the LMCache beside it."""

    vllm: Command
    lmcache: Command | None


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The processes of an arm in the order they start, and the file they read.

    `lmcache_config` is what must be in `lmcache_file` before vLLM starts (in-process mode; else None).
    """

    arm: Arm
    ports: Ports
    valkeys: tuple[Command, ...]
    link: Command | None
    engines: tuple[EngineCommands, ...]
    lmcache_file: Path
    lmcache_config: str | None

    @property
    def commands(self) -> tuple[Command, ...]:
        """All of them, in order."""
        link = () if self.link is None else (self.link,)
        lmcaches = (engine.lmcache for engine in self.engines if engine.lmcache is not None)
        return (*self.valkeys, *link, *lmcaches, *(engine.vllm for engine in self.engines))


def draw(
    engine: Engine,
    arm: Arm,
    *,
    model: str,
    kv_bytes: int,
    link_bytes_per_s: float | str,
    free: Sequence[int],
    folder: Path,
) -> Blueprint:
    """The blueprint of `arm`.

    `model` is a folder or hub id, `kv_bytes` the KV bytes a token, `link_bytes_per_s` each link's rate (text while it
    is not known yet), `free` as many ports as `Ports.needed` says, `folder` where a file for the processes may go.
    """
    ports, python = Ports.of(arm, engine.replicas, free), Interpreter.of(arm.python)
    shm_name = f"kvreplay-{os.getpid()}-{secrets.token_hex(3)}"
    link = _link(arm, ports, link_bytes_per_s)
    remote = arm.valkey
    valkeys: tuple[Command, ...] = ()
    if remote is not None:
        pairs = enumerate(zip(ports.valkeys, ports.links, strict=True))
        valkeys = tuple(valkey.command(remote, i, port, bus, folder) for i, (port, bus) in pairs)
    endpoints = _endpoints(remote, ports, linked=link is not None)
    config, file = None, folder / "lmcache.yaml"
    if arm.lmcache is not None and arm.lmcache.mode == "inprocess":
        config = lmcache_inprocess.text(lmcache_inprocess.settings(arm.lmcache, engine, remote, endpoints))
    engines = []
    for index, own in enumerate(ports.engines):
        cache, connector = None, None
        if config is not None:
            connector = lmcache_inprocess.connector_config(engine)
        elif arm.lmcache is not None:
            cache = lmcache.command(
                arm.lmcache,
                zmq_port=own.lmcache_zmq,
                http_port=own.lmcache_http,
                shm_name=f"{shm_name}-{index}",
                valkey=remote,
                endpoints=endpoints,
                python=python,
                index=index,
            )
            connector = lmcache.connector_config(own.lmcache_zmq)
        server = vllm.command(
            engine,
            model=model,
            port=own.vllm,
            connector=connector,
            kv_bytes=kv_bytes,
            lmcache_env={} if config is None else lmcache_inprocess.environment(file, own.lmcache_http),
            python=python,
            index=index,
        )
        engines.append(EngineCommands(server, cache))
    return Blueprint(arm, ports, valkeys, link, tuple(engines), file, config)


def _started(arm: Arm) -> int:
    return arm.valkey.started if arm.valkey else 0


def _endpoints(remote: Valkey | None, ports: Ports, *, linked: bool) -> tuple[str, ...]:
    """What LMCache talks to: instances that run already, or the links of ours, or ours."""
    if remote is not None and remote.urls:
        return remote.urls
    return tuple(f"127.0.0.1:{port}" for port in (ports.links if linked else ports.valkeys))


def _link(arm: Arm, ports: Ports, bytes_per_s: float | str) -> Command | None:
    """One process for all links of the arm."""
    if arm.valkey is None or arm.valkey.link is None:
        return None
    rate = bytes_per_s if isinstance(bytes_per_s, str) else f"{bytes_per_s:.0f}"
    pairs = [f"{listen}:{upstream}" for listen, upstream in zip(ports.links, ports.valkeys, strict=True)]
    argv = [sys.executable, "-m", "harness.stack.link_proxy", "--host", "127.0.0.1", "--bytes-per-s", rate]
    argv += ["--latency-s", f"{arm.valkey.link.latency:g}"]
    for pair in pairs:
        argv += ["--link", pair]
    return Command("link", tuple(argv))
