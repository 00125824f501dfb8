"""Nodes that run, joined into one Valkey Cluster: each owns an equal range of the hash slots, none has a replica."""

import asyncio
import itertools
from collections.abc import Sequence

from harness.errors import StackError

SLOTS = 16_384
_DEADLINE_S = 30.0
_POLL_S = 0.1


def slot_ranges(nodes: int) -> tuple[tuple[int, int], ...]:
    """First and last slot of each node: all slots, in order, none twice."""
    bounds = [SLOTS * node // nodes for node in range(nodes + 1)]
    return tuple((first, after - 1) for first, after in itertools.pairwise(bounds))


async def join(ports: Sequence[int], bus_ports: Sequence[int]) -> None:
    """Make one cluster of the empty nodes at 127.0.0.1; returns when every one of them says that all slots are served.

    Raises StackError that names a node that refuses, or is not of one mind with the others within half a minute.
    """
    for port, (first, last) in zip(ports, slot_ranges(len(ports)), strict=True):
        await _command(port, f"CLUSTER ADDSLOTSRANGE {first} {last}")
    for port, bus_port in zip(ports[1:], bus_ports[1:], strict=True):
        await _command(ports[0], f"CLUSTER MEET 127.0.0.1 {port} {bus_port}")
    loop = asyncio.get_running_loop()
    until = loop.time() + _DEADLINE_S
    for port in ports:
        while not _whole(await _command(port, "CLUSTER INFO"), len(ports)):
            if loop.time() > until:
                raise StackError(
                    f"the cluster is not whole after {_DEADLINE_S:.0f} s",
                    where=f"valkey at 127.0.0.1:{port}",
                    remedy="see the Valkeys' logs; are their bus ports blocked?",
                )
            await asyncio.sleep(_POLL_S)


def _whole(info: str, nodes: int) -> bool:
    lines = info.split()
    return "cluster_state:ok" in lines and f"cluster_known_nodes:{nodes}" in lines


async def _command(port: int, command: str) -> str:
    """The reply to an inline command. Raises StackError for an error reply and for none."""
    where = f"valkey at 127.0.0.1:{port}"
    try:
        async with asyncio.timeout(_DEADLINE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(f"{command}\r\n".encode())
                reply = (await reader.readline()).decode()
                if reply.startswith("$"):
                    reply = (await reader.readexactly(int(reply[1:]))).decode()
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        raise StackError(f"{command} was not answered: {error!r}", where=where, remedy="see its log") from error
    if not reply or reply.startswith("-"):
        raise StackError(f"{command} was refused: {reply.strip()}", where=where, remedy="see its log")
    return reply
