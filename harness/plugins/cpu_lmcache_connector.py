"""LMCache's in-process mode on vLLM's CPU engine, which no released LMCache has.

    --kv-transfer-config '{"kv_connector": "CPULMCacheConnector", "kv_role": "kv_both",
                           "kv_connector_module_path": "harness.plugins.cpu_lmcache_connector"}'

LMCache makes its engine with a GPU connector for the device it runs on, and refuses a CPU; but it takes an engine that
exists already (lmcache 0.5.5, integration/vllm/vllm_service_factory.py). So this makes the engine first, of LMCache's
own parts and with `CPUKVCopy` to move the KV. Nothing of LMCache or vLLM is patched.
"""

from typing import Any

from lmcache.integration.vllm.utils import lmcache_get_or_create_config
from lmcache.integration.vllm.vllm_service_factory import VllmServiceFactory
from lmcache.v1.cache_engine import LMCacheEngineBuilder
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.lmcache_connector import LMCacheConnectorV1
from vllm.distributed.parallel_state import get_tp_group

from harness.plugins.cpu_kv_copy import CPUKVCopy


class CPULMCacheConnector(LMCacheConnectorV1):  # type: ignore[misc] # vllm is not there where types are checked
    """vLLM's LMCacheConnectorV1 with an LMCache engine that copies KV of a CPU cache."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        if role is KVConnectorRole.WORKER:
            _make_engine(vllm_config)
        super().__init__(vllm_config, role, kv_cache_config)


def _make_engine(vllm_config: Any) -> None:
    """LMCache's engine of this worker, under the name by which LMCache looks it up."""
    config = lmcache_get_or_create_config()
    factory = VllmServiceFactory(config, vllm_config, "worker")
    metadata = factory.get_or_create_metadata()
    ranks = get_tp_group()
    LMCacheEngineBuilder.get_or_create(
        factory.get_engine_instance_id(),
        config,
        metadata,
        CPUKVCopy(metadata.kv_shape),
        ranks.broadcast,
        ranks.broadcast_object,
    )
