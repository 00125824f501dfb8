"""vLLM's OpenAI server: the command line (CPU or CUDA build), and the proof that it answers."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from harness.config import Engine
from harness.stack.interpreter import HERE, Interpreter
from harness.stack.process import Command, numbered

READY_DEADLINE_S = 1200.0  # 25 to 75 s on a quiet machine, ten times that on a busy one; a hang is longer still
_GIB = 2**30


def command(
    engine: Engine,
    *,
    model: str,
    port: int,
    connector: Mapping[str, object] | None,
    kv_bytes: int,
    lmcache_env: Mapping[str, str],
    python: Interpreter = HERE,
    index: int = 0,
) -> Command:
    """The server `index` of an arm.

    `model` is a folder or hub id, `connector` the KV transfer, `kv_bytes` a token's KV, `lmcache_env` what an
    LMCache inside the workers reads, `python` what runs it.
    """
    blocks = engine.kv_cache_tokens // engine.block_size if engine.kv_cache_tokens else None
    argv = [
        *(python.path, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", model, "--served-model-name", served_name(engine)),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--block-size", str(engine.block_size), "--enable-prefix-caching"),
        *("--enable-prompt-tokens-details", "--enable-request-id-headers", "--enable-per-request-metrics"),
        "--disable-uvicorn-access-log",
    ]
    if engine.max_model_len is not None:
        argv += ["--max-model-len", str(engine.max_model_len)]
    if blocks is not None:
        argv += ["--num-gpu-blocks-override", str(blocks)]
    for flag, size in (
        ("--tensor-parallel-size", engine.tensor_parallel),
        ("--prefill-context-parallel-size", engine.prefill_context_parallel),
        ("--data-parallel-size", engine.data_parallel),
    ):
        if size > 1:
            argv += [flag, str(size)]
    if connector is not None:
        argv += ["--kv-transfer-config", json.dumps(connector)]
    env = {**_environment(engine, kv_bytes, index), **python.env, **lmcache_env}
    return Command(numbered("vllm", index), (*argv, *_backend_args(engine), *engine.extra_args), env)


def served_name(engine: Engine) -> str:
    """The name requests ask for: the model folder's, unless said; an attached server goes by the name as written."""
    written = engine.backend == "attach" and not Path(engine.model).is_dir()
    return engine.served_model_name or (engine.model if written else Path(engine.model).name)


def _backend_args(engine: Engine) -> list[str]:
    return ["--dtype", "bfloat16"] if engine.backend == "vllm-cpu" else []


def _environment(engine: Engine, kv_bytes: int, index: int) -> dict[str, str]:
    env = {
        "DO_NOT_TRACK": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_HOST_IP": "127.0.0.1",  # its own processes talk over loopback, whatever addresses this machine has
        "VLLM_SERVER_DEV_MODE": "1",  # /reset_prefix_cache, on 127.0.0.1 only
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "",
        "LMCACHE_TRACK_USAGE": "false",
    }
    if engine.backend == "vllm-cpu":
        cores = sorted(os.sched_getaffinity(0))
        own = cores[index :: engine.replicas] or cores[-1:]
        env |= {
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_KVCACHE_SPACE": str(kv_space_gib(engine, kv_bytes)),
            "VLLM_CPU_OMP_THREADS_BIND": omp_binding(engine.tensor_parallel, own),
        }
        if engine.ranks > 1:
            # Ranks wait for one another in a loop of sched_yield, which on Linux 6.18 (before "sched/fair: Fix
            # zero_vruntime tracking fix", 1319ea57529e) leaves LMCache's threads ready to run and not running for tens
            # of seconds where there are no more cores than ranks; this loop yields rarely.
            env["VLLM_USE_SPINLOOP_EXT"] = "1"
    return env


def omp_binding(ranks: int, cores: Sequence[int]) -> str:
    """VLLM_CPU_OMP_THREADS_BIND: equal groups of cores, one a rank; one core is left to all else if there are enough.

    `auto` would give an engine with a KV connector other cores than one without: it reserves one more for it, and on
    two cores then takes both (vLLM 0.31, ompmultiprocessing.py). Arms could not be compared.
    """
    each = max((len(cores) - 1) // ranks, 1)
    groups = [cores[rank * each : (rank + 1) * each] or cores[-1:] for rank in range(ranks)]
    return "|".join(",".join(str(core) for core in group) for group in groups)


def kv_space_gib(engine: Engine, kv_bytes: int) -> int:
    """VLLM_CPU_KVCACHE_SPACE: whole GiB that hold the KV cache; the block override then makes it exact."""
    return max(1, math.ceil((engine.kv_cache_tokens or 0) * kv_bytes / _GIB))


async def ready(client: httpx.AsyncClient, url: str) -> bool:
    """Whether /health answers 200."""
    try:
        return (await client.get(f"{url}/health")).status_code == 200
    except httpx.HTTPError:
        return False


async def answers(client: httpx.AsyncClient, url: str, model: str, prompt: list[int]) -> str | None:
    """None when a real one-token completion succeeds, else what came back instead."""
    body = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "ignore_eos": True}
    try:
        response = await client.post(f"{url}/v1/completions", json=body, timeout=120.0)
    except httpx.HTTPError as error:
        return f"{type(error).__name__}: {error}"
    if response.status_code != 200:
        return f"HTTP {response.status_code}: {response.text[:300]}"
    choices: Any = response.json().get("choices")
    return None if choices else f"no choices in {response.text[:300]}"
