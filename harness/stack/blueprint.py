"""An arm on paper: every process it needs, with its whole command line. Pure; `kvreplay plan` prints it."""

import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from harness.config import Arm, Engine
from harness.stack import lmcache, valkey, vllm
from harness.stack.process import Command


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one arm, all on 127.0.0.1."""

    vllm: int
    lmcache_zmq: int
    lmcache_http: int
    valkeys: tuple[int, ...]
    links: tuple[int, ...]

    @staticmethod
    def needed(arm: Arm) -> int:
        """How many ports this arm takes."""
        instances = arm.valkey.instances if arm.valkey else 0
        return 3 + 2 * instances

    @staticmethod
    def of(arm: Arm, free: Sequence[int]) -> "Ports":
        """Deal `needed(arm)` free ports out."""
        instances = arm.valkey.instances if arm.valkey else 0
        return Ports(free[0], free[1], free[2], tuple(free[3 : 3 + instances]), tuple(free[3 + instances :]))


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The processes of an arm in the order they start. `shm_name` is the segment LMCache will make."""

    arm: Arm
    ports: Ports
    valkeys: tuple[Command, ...]
    link: Command | None
    lmcache: Command | None
    vllm: Command
    shm_name: str

    @property
    def commands(self) -> tuple[Command, ...]:
        """All of them, in order."""
        optional = [command for command in (self.link, self.lmcache) if command is not None]
        return (*self.valkeys, *optional, self.vllm)


def draw(
    engine: Engine, arm: Arm, *, model: str, kv_bytes: int, link_bytes_per_s: float | str, free: Sequence[int]
) -> Blueprint:
    """The blueprint of `arm`.

    `model` is a folder or hub id, `kv_bytes` the KV bytes a token, `link_bytes_per_s` each link's rate (text while it
    is not known yet), `free` as many ports as `Ports.needed(arm)`.
    """
    ports = Ports.of(arm, free)
    shm_name = f"kvreplay-{os.getpid()}-{secrets.token_hex(3)}"
    link = _link(arm, ports, link_bytes_per_s)
    remote = arm.valkey
    valkeys = () if remote is None else tuple(valkey.command(remote, i, port) for i, port in enumerate(ports.valkeys))
    cache = None
    if arm.lmcache is not None:
        endpoints = [f"127.0.0.1:{port}" for port in (ports.links if link else ports.valkeys)]
        cache = lmcache.command(
            arm.lmcache,
            zmq_port=ports.lmcache_zmq,
            http_port=ports.lmcache_http,
            shm_name=shm_name,
            valkey=arm.valkey,
            endpoints=endpoints,
        )
    connector = lmcache.connector_config(ports.lmcache_zmq) if arm.lmcache is not None else None
    server = vllm.command(engine, model=model, port=ports.vllm, connector=connector, kv_bytes=kv_bytes)
    return Blueprint(arm, ports, valkeys, link, cache, server, shm_name)


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
