"""What each Valkey instance says of itself: INFO, and FLUSHALL to make it forget."""

import asyncio
import os
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import parse_qsl

import valkey.asyncio as valkey
from valkey.exceptions import ConnectionError as ValkeyConnectionError
from valkey.exceptions import ValkeyError

from harness.errors import CollectError

_SECTIONS = ("clients", "commandstats", "cpu", "keyspace", "latencystats", "memory", "stats")
_TIMEOUT_S = 2.0
_OWN_TRAFFIC_BYTES = 4096
"""More than a connection and one INFO of ours send to an instance between two reads."""


@dataclass(frozen=True, slots=True)
class ValkeyReading:
    """One instance since its start: GET and SET calls, bytes it sent and received, keys and memory now, keys evicted.

    `get_calls` are GETs only, so none of our own commands is in it. `bytes_out` and `bytes_in` are the instance's whole
    network traffic: each reading of ours adds its INFO reply, a few kilobytes out and some hundred bytes in.
    The others are None where the instance does not say: time spent in commands, the CPU time of the process, hits and
    misses of keys, connections, the 99th percentile of the time of a GET since the start, and how many commands are in
    the slow log.
    """

    get_calls: int
    set_calls: int
    bytes_out: int
    bytes_in: int
    keys: int
    used_memory_bytes: int
    evicted_keys: int
    exists_calls: int | None = None
    get_usec: int | None = None
    set_usec: int | None = None
    cpu_s: float | None = None
    keyspace_hits: int | None = None
    keyspace_misses: int | None = None
    expired_keys: int | None = None
    connected_clients: int | None = None
    rejected_connections: int | None = None
    get_p99_usec: float | None = None
    slowlog_entries: int | None = None


def parse_info(info: Mapping[str, Any]) -> ValkeyReading:
    """A reading from INFO's fields (sections commandstats, stats, keyspace, memory).

    A command that was never called has no line and counts 0, as Valkey means it. Raises KeyError without the others.
    """
    databases = [value for name, value in info.items() if name.startswith("db") and isinstance(value, Mapping)]
    return ValkeyReading(
        get_calls=_calls(info, "get"),
        set_calls=_calls(info, "set"),
        bytes_out=int(info["total_net_output_bytes"]),
        bytes_in=int(info["total_net_input_bytes"]),
        keys=sum(int(database["keys"]) for database in databases),
        used_memory_bytes=int(info["used_memory"]),
        evicted_keys=int(info["evicted_keys"]),
        exists_calls=_calls(info, "exists"),
        get_usec=_stat(info, "get", "usec"),
        set_usec=_stat(info, "set", "usec"),
        cpu_s=_cpu_s(info),
        keyspace_hits=_whole(info, "keyspace_hits"),
        keyspace_misses=_whole(info, "keyspace_misses"),
        expired_keys=_whole(info, "expired_keys"),
        connected_clients=_whole(info, "connected_clients"),
        rejected_connections=_whole(info, "rejected_connections"),
        get_p99_usec=_p99_usec(info, "get"),
    )


def connect(url: str) -> valkey.Valkey:
    """A client of the instance at `url` (valkey://, redis://, LMCache's resp://, or unix://); connects when first used.

    A query names what it needs to enter: `?username_env=`, `password_env=` (variables) and `ca_file=` (TLS). Raises
    CollectError for a variable that is not set.
    """
    address, _, query = url.partition("?")
    scheme, _, rest = address.partition("://")
    options = dict(parse_qsl(query))
    entry: dict[str, Any] = {}
    for name in ("username", "password"):
        if variable := options.get(f"{name}_env"):
            entry[name] = _variable(variable, address)
    if ca_file := options.get("ca_file"):
        entry["ssl_ca_certs"] = ca_file
    client: valkey.Valkey = valkey.Valkey.from_url(
        f"{scheme.replace('resp', 'valkey')}://{rest}",
        socket_timeout=_TIMEOUT_S,
        socket_connect_timeout=_TIMEOUT_S,
        protocol=2,
        **entry,
    )
    return client


def _variable(name: str, address: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise CollectError(
            f"the environment variable {name} is not set", where=address, remedy=f"export {name}=..., the credential"
        )
    return value


async def read_valkey(client: valkey.Valkey) -> ValkeyReading | None:
    """What one instance says; None if it does not answer within two seconds: a gap, not a zero."""
    try:
        reading = parse_info(await client.info(*cast("Any", _SECTIONS)))
        return replace(reading, slowlog_entries=int(await cast("Awaitable[int]", client.slowlog_len())))
    except (ValkeyError, OSError, TimeoutError, KeyError):
        return None


async def read_valkeys(urls: Sequence[str]) -> tuple[ValkeyReading | None, ...]:
    """One reading per instance, in the order of `urls`, taken at the same time; None for one that does not answer."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(url)) for url in urls]
        return tuple(await asyncio.gather(*(read_valkey(client) for client in clients)))


async def flush_valkeys(urls: Sequence[str], *, absent_ok: bool = False) -> None:
    """Empty every instance; returns when the keys are gone. Raises CollectError that names one that does not obey.

    With `absent_ok`, one that nobody listens for is passed over: it holds nothing.
    """
    for url in urls:
        async with connect(url) as client:
            try:
                await client.flushall()
                left = await cast("Awaitable[int]", client.dbsize())
            except (ValkeyError, OSError, TimeoutError) as error:
                if absent_ok and isinstance(error, ValkeyConnectionError):
                    continue
                raise CollectError(f"FLUSHALL failed: {error}", where=url, remedy="is this Valkey still up?") from error
        if left:
            raise CollectError(
                f"{left} keys are there right after FLUSHALL", where=url, remedy="stop whoever else writes to it"
            )


async def until_settled(
    urls: Sequence[str], *, timeout_s: float, poll_s: float = 0.25, absent_ok: bool = False
) -> None:
    """Wait until no instance receives data any more: LMCache stores behind the engine's back, after the last answer.

    Settled means that between two reads no SET ended and no more came in than our own traffic. Raises CollectError
    after `timeout_s`, or if an instance does not answer then; with `absent_ok`, one that does not answer is settled.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    before = await read_valkeys(urls)
    while True:
        await asyncio.sleep(poll_s)
        now = await read_valkeys(urls)
        busy = [
            url
            for url, old, new in zip(urls, before, now, strict=True)
            if not _quiet(old, new) and not (absent_ok and new is None)
        ]
        if not busy:
            return
        if loop.time() >= deadline:
            raise CollectError(
                f"still receiving data, or silent, after {timeout_s:g} s",
                where=", ".join(busy),
                remedy="see LMCache's log: a store may be stuck, or the link too slow for the time given",
            )
        before = now


def _quiet(before: ValkeyReading | None, now: ValkeyReading | None) -> bool:
    return (
        before is not None
        and now is not None
        and now.set_calls == before.set_calls
        and now.bytes_in - before.bytes_in <= _OWN_TRAFFIC_BYTES
    )


def _calls(info: Mapping[str, Any], command: str) -> int:
    return _stat(info, command, "calls")


def _stat(info: Mapping[str, Any], command: str, name: str) -> int:
    stats = info.get(f"cmdstat_{command}")
    return int(stats[name]) if isinstance(stats, Mapping) else 0


def _whole(info: Mapping[str, Any], name: str) -> int | None:
    return int(info[name]) if name in info else None


def _cpu_s(info: Mapping[str, Any]) -> float | None:
    """All threads of the process, I/O threads included."""
    parts = [info.get("used_cpu_user"), info.get("used_cpu_sys")]
    return None if None in parts else sum(float(part) for part in parts if part is not None)


def _p99_usec(info: Mapping[str, Any], command: str) -> float | None:
    percentiles = info.get(f"latency_percentiles_usec_{command}")
    return float(percentiles["p99"]) if isinstance(percentiles, Mapping) and "p99" in percentiles else None
