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
class Ports:
    """The ports of one arm, all on 127.0.0.1. A Valkey Cluster has no links, and its bus where they would be."""

    vllm: int
    lmcache_zmq: int
    lmcache_http: int
    valkeys: tuple[int, ...]
    links: tuple[int, ...]

    @staticmethod
    def needed(arm: Arm) -> int:
        """How many ports this arm takes."""
        return 3 + 2 * _started(arm)

    @staticmethod
    def of(arm: Arm, free: Sequence[int]) -> "Ports":
        """Deal `needed(arm)` free ports out."""
        instances = _started(arm)
        return Ports(free[0], free[1], free[2], tuple(free[3 : 3 + instances]), tuple(free[3 + instances :]))


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The processes of an arm in the order they start, and the file they read.

    `shm_name` is the segment LMCache will make, `lmcache_config` what must be in `lmcache_file` before vLLM starts
    (in-process mode; else None).
    """

    arm: Arm
    ports: Ports
    valkeys: tuple[Command, ...]
    link: Command | None
    lmcache: Command | None
    vllm: Command
    shm_name: str
    lmcache_file: Path
    lmcache_config: str | None

    @property
    def commands(self) -> tuple[Command, ...]:
        """All of them, in order."""
        optional = [command for command in (self.link, self.lmcache) if command is not None]
        return (*self.valkeys, *optional, self.vllm)


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
    is not known yet), `free` as many ports as `Ports.needed(arm)`, `folder` where a file for the processes may go.
    """
    ports, python = Ports.of(arm, free), Interpreter.of(arm.python)
    shm_name = f"kvreplay-{os.getpid()}-{secrets.token_hex(3)}"
    link = _link(arm, ports, link_bytes_per_s)
    remote = arm.valkey
    valkeys: tuple[Command, ...] = ()
    if remote is not None:
        pairs = enumerate(zip(ports.valkeys, ports.links, strict=True))
        valkeys = tuple(valkey.command(remote, i, port, bus, folder) for i, (port, bus) in pairs)
    endpoints = _endpoints(remote, ports, linked=link is not None)
    cache, connector, config = None, None, None
    file = folder / "lmcache.yaml"
    if arm.lmcache is not None and arm.lmcache.mode == "inprocess":
        config = lmcache_inprocess.text(lmcache_inprocess.settings(arm.lmcache, engine, remote, endpoints))
        connector = lmcache_inprocess.connector_config(engine)
    elif arm.lmcache is not None:
        cache = lmcache.command(
            arm.lmcache,
            zmq_port=ports.lmcache_zmq,
            http_port=ports.lmcache_http,
            shm_name=shm_name,
            valkey=remote,
            endpoints=endpoints,
            python=python,
        )
        connector = lmcache.connector_config(ports.lmcache_zmq)
    server = vllm.command(
        engine,
        model=model,
        port=ports.vllm,
        connector=connector,
        kv_bytes=kv_bytes,
        lmcache_file=file if config is not None else None,
        python=python,
    )
    return Blueprint(arm, ports, valkeys, link, cache, server, shm_name, file, config)


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
