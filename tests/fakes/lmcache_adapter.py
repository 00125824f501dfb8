"""LMCache's own native_plugin adapter over given endpoints, as a program: its result on stdout, one JSON line.

Run in a process of its own (python FILE HOST:PORT...): importing lmcache and torch must not touch the tests' process.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.l2_adapters.config import get_l2_adapter_config_class
from lmcache.v1.distributed.l2_adapters.factory import create_l2_adapter_from_registry
from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj

SIZE = 50_000


def memory(fill: int) -> TensorMemoryObj:
    """A memory object of LMCache whose bytes are all `fill`."""
    raw = torch.full((SIZE,), fill, dtype=torch.uint8)
    metadata = MemoryObjMetadata(torch.Size([SIZE]), torch.uint8, 0, SIZE, 1, 0, MemoryFormat.BINARY_BUFFER)
    return TensorMemoryObj(raw, metadata, None)


def result(query: Callable[[], Any]) -> Any:
    """What the adapter answers once it has completed a task."""
    until = time.monotonic() + 60
    while (answer := query()) is None or answer == {}:
        if time.monotonic() > until:
            raise TimeoutError("the adapter did not answer")
        time.sleep(0.01)
    return answer


def main(endpoints: list[str]) -> None:
    """Store three chunks, look up and load them and a fourth that is not there, delete the first, look up again."""
    config = get_l2_adapter_config_class("native_plugin").from_dict(
        {
            "type": "native_plugin",
            "module_path": "harness.plugins.sharded_valkey",
            "class_name": "ShardedValkey",
            "adapter_params": {"endpoints": endpoints, "placement": "chunk", "workers_per_instance": 2},
        }
    )
    adapter = create_l2_adapter_from_registry(config)
    keys = [ObjectKey(bytes([number]) * 32, "model", ObjectKey.ComputeKVRank(1, 0, 1, 0)) for number in range(4)]
    sources = [memory(number + 1) for number in range(3)]  # held: the adapter sends from their bare addresses
    targets = [memory(0) for _ in keys]

    def look_up() -> Any:
        task = adapter.submit_lookup_and_lock_task(keys, {})
        return result(lambda: adapter.query_lookup_and_lock_result(task))

    adapter.submit_store_task(keys[:3], sources)
    (stored,) = result(adapter.pop_completed_store_tasks).values()
    found = look_up()
    load = adapter.submit_load_task(keys, targets)
    loaded = result(lambda: adapter.query_load_result(load))
    adapter.delete(keys[:1])
    left = look_up()
    adapter.close()
    report = {
        "store_ok": stored.is_successful(),
        "found_loaded_left": [[int(bits.test(i)) for i in range(4)] for bits in (found, loaded, left)],
        "bytes": [target.raw_data.unique().tolist() for target in targets],
    }
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
