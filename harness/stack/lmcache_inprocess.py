"""LMCache inside vLLM's workers (`mode: inprocess`): no process of its own, one YAML file that every rank reads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.config import Engine, LMCache, Valkey
from harness.stack.lmcache import client_settings

_GIB = 2**30
_PLUGIN = "kvreplay"


def settings(lmcache: LMCache, engine: Engine, valkey: Valkey | None, endpoints: Sequence[str]) -> dict[str, Any]:
    """LMCache's configuration (lmcache 0.5.5, v1/config.py); `endpoints` are what the ranks talk to.

    Hashes are sha256_cbor: LMCache's default, Python's own `hash`, differs between processes without PYTHONHASHSEED.
    Every rank serves a page of its metrics, where `environment` says.
    """
    document: dict[str, Any] = {
        "chunk_size": lmcache.chunk_size,
        "local_cpu": lmcache.store_policy == "default",
        "max_local_cpu_size": lmcache.l1 / _GIB,  # staging memory where local_cpu is false
        "save_unfull_chunk": False,
        "save_decode_cache": False,
        "enable_async_loading": not lmcache.in_step,
        "pre_caching_hash_algorithm": "sha256_cbor",
        "internal_api_server_enabled": True,
        "internal_api_server_host": "127.0.0.1",
        "internal_api_server_include_index_list": list(range(1, engine.ranks + 1)),  # 0 is the scheduler
        "extra_config": {"internal_api_server_access_log": False},
    }
    if lmcache.lookup_timeout is not None:
        document["lookup_timeout_ms"] = round(lmcache.lookup_timeout * 1e3)
    if valkey is None:
        return document
    plugin = f"remote_storage_plugin.{_PLUGIN}"
    extra: dict[str, Any] = document["extra_config"] | {
        f"{plugin}.module_path": "harness.plugins.remote_connector",
        f"{plugin}.class_name": "ShardedValkeyAdapter",
        f"{_PLUGIN}.endpoints": list(endpoints),
        **{f"{_PLUGIN}.{name}": value for name, value in client_settings(valkey).items()},
        "save_chunk_meta": False,
    }
    document |= {"remote_storage_plugins": [_PLUGIN], "extra_config": extra}
    if valkey.placement == "rank" or engine.prefill_context_parallel > 1:
        # With MLA, rank 0 alone would write and read, whatever instances the others have; and what it reads it would
        # send to its tensor-parallel group, in which ranks of context parallelism are not.
        extra |= {"save_only_first_rank": False, "remote_enable_mla_worker_id_as0": False}
        document["lookup_server_worker_ids"] = list(range(engine.ranks))
    return document


def environment(file: Path, first_port: int) -> dict[str, str]:
    """What an engine with LMCache inside is told: its `file`, and that its ranks serve metrics from `first_port` on."""
    scheduler_port = first_port - 1  # LMCache counts from it, and it serves none
    return {"LMCACHE_CONFIG_FILE": str(file), "LMCACHE_INTERNAL_API_SERVER_PORT_START": str(scheduler_port)}


def text(document: dict[str, Any]) -> str:
    """The file that LMCACHE_CONFIG_FILE names."""
    return yaml.safe_dump(document, sort_keys=False)


def connector_config(engine: Engine) -> dict[str, object]:
    """vLLM's --kv-transfer-config: LMCache's own connector, or ours on a CPU, where LMCache has none.

    A load that fails is computed instead; vLLM's default is to fail the request.
    """
    config: dict[str, object] = {
        "kv_connector": "LMCacheConnectorV1",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
    }
    if engine.backend == "vllm-cpu":
        config |= {
            "kv_connector": "CPULMCacheConnector",
            "kv_connector_module_path": "harness.plugins.cpu_lmcache_connector",
        }
    return config
