"""LMCache's multiprocess server (`mode: mp`): host tier (L1) and, with Valkeys, the remote tier (L2) on our plugin."""

import json
from collections.abc import Sequence

import httpx

from harness.config import LMCache, Valkey
from harness.stack.interpreter import HERE, Interpreter
from harness.stack.ports import listens
from harness.stack.process import Command, numbered

READY_DEADLINE_S = 300.0
_GIB = 2**30
_WORKERS_PER_INSTANCE = 2
# LMCache itself gives a message to its server 300 s: a shorter deadline of ours would turn an overloaded link, which is
# what a run may want to see, into misses.
_DEADLINE_S = 300.0
_SILENCE_S = 30.0  # an overloaded link still moves bytes, an instance that hangs does not
_PREFETCH_MAX_IN_FLIGHT = 8  # LMCache's default, written out because it bounds the loads that run at once


def command(
    lmcache: LMCache,
    *,
    zmq_port: int,
    http_port: int,
    shm_name: str,
    valkey: Valkey | None,
    endpoints: Sequence[str],
    python: Interpreter = HERE,
    index: int = 0,
) -> Command:
    """The server of an arm's engine `index`, run by `python`; its L2 adapter talks to `endpoints`."""
    l1_gib = f"{lmcache.l1 / _GIB:.6g}"
    argv = [
        *(python.path, "-m", "lmcache.cli.main", "server"),
        *("--host", "localhost", "--port", str(zmq_port)),
        *("--http-host", "127.0.0.1", "--http-port", str(http_port)),
        *("--l1-size-gb", l1_gib, "--l1-init-size-gb", str(lmcache.l1 // _GIB)),
        *("--eviction-policy", "LRU", "--chunk-size", str(lmcache.chunk_size)),
        *("--max-workers", "2", "--l2-store-policy", lmcache.store_policy),
        *("--l2-prefetch-max-in-flight", str(_PREFETCH_MAX_IN_FLIGHT)),
        # Without these two a CPU worker's registration has no handler and vLLM hangs for ever while starting.
        *("--supported-transfer-mode", "auto", "--shm-name", shm_name),
    ]
    if valkey is not None:
        argv += ["--l2-adapter", json.dumps(adapter(valkey, endpoints))]
    env = {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1", "PYTHONDONTWRITEBYTECODE": "", **python.env}
    return Command(numbered("lmcache", index), tuple(argv), env)


def adapter(valkey: Valkey, endpoints: Sequence[str]) -> dict[str, object]:
    """The L2 adapter as LMCache's --l2-adapter wants it: one client over N instances, one instance included.

    A cluster is LMCache's own affair: its `valkey` adapter (which needs valkey-glide-sync) follows the redirects.
    """
    if valkey.cluster:
        return {
            "type": "valkey",
            "startup_nodes": ",".join(endpoints),
            "cluster_mode": True,
            "num_workers": _WORKERS_PER_INSTANCE * len(endpoints),
            "request_timeout": _SILENCE_S,
            **({"key_prefix": valkey.key_prefix} if valkey.key_prefix else {}),
        }
    return {
        "type": "native_plugin",
        "module_path": "harness.plugins.sharded_valkey",
        "class_name": "ShardedValkey",
        "adapter_params": {
            "endpoints": list(endpoints),
            **client_settings(valkey),
            "deadline_s": _DEADLINE_S,
            "silence_s": _SILENCE_S,
        },
    }


def client_settings(valkey: Valkey) -> dict[str, object]:
    """What our client is told in either of LMCache's modes, beside its endpoints."""
    prefix = {"key_prefix": valkey.key_prefix} if valkey.key_prefix else {}
    workers = _WORKERS_PER_INSTANCE
    return {"placement": valkey.placement, "workers_per_instance": workers, **credentials(valkey), **prefix}


def credentials(valkey: Valkey) -> dict[str, str]:
    """How to enter instances that ask for it: names of variables, never what they hold."""
    names = {"username_env": valkey.username_env, "password_env": valkey.password_env, "ca_file": valkey.ca_file}
    return {name: value for name, value in names.items() if value is not None}


def connector_config(zmq_port: int) -> dict[str, object]:
    """vLLM's --kv-transfer-config for this server."""
    return {
        "kv_connector": "LMCacheMPConnector",
        "kv_role": "kv_both",
        # vLLM's default, "fail", lets one failed load kill the engine: github.com/vllm-project/vllm/issues/49089
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"lmcache.mp.host": "tcp://127.0.0.1", "lmcache.mp.port": zmq_port},
    }


async def ready(client: httpx.AsyncClient, http_port: int) -> bool:
    """Whether /healthcheck answers 200."""
    if not await listens(http_port):
        return False
    try:
        return (await client.get(f"http://127.0.0.1:{http_port}/healthcheck")).status_code == 200
    except httpx.HTTPError:
        return False
