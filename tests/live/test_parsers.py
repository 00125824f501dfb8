"""Our command lines against the parsers of the programs they start: every flag known, every value taken."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.config import Arm, Engine, LMCache, Valkey
from harness.stack import Blueprint, Ports, draw
from tests.fakes.shipped import CONFIGS, arms

REMOTE = Arm(
    name="remote",
    lmcache=LMCache.model_construct(mode="mp", l1=2**30, store_policy="skip_l1", chunk_size=256),
    valkey=Valkey(instances=8, placement="rank"),
)
CUDA = Engine(backend="vllm", model="org/name", tensor_parallel=8, max_model_len=131_072, kv_cache_tokens=524_288)
CPU = Engine(backend="vllm-cpu", model="tiny-8l", kv_cache_tokens=5632, block_size=128, max_model_len=4096)


def _draw(engine: Engine) -> Blueprint:
    free = range(9000, 9000 + Ports.needed(REMOTE))
    return draw(engine, REMOTE, model="org/name", kv_bytes=4096, link_bytes_per_s=0.0, free=free, folder=Path("logs"))


@pytest.mark.parametrize("engine", [CUDA, CPU], ids=["cuda", "cpu"])
@pytest.mark.filterwarnings("ignore")
def test_vllm_takes_every_option(engine: Engine) -> None:
    """Parallel sizes, cache size and connector arrive as vLLM's own parser understands them."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser  # noqa: PLC0415
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415

    argv = _draw(engine).vllm.argv
    parsed: Any = make_arg_parser(FlexibleArgumentParser()).parse_args(list(argv[3:]))
    assert parsed.tensor_parallel_size == engine.tensor_parallel
    assert parsed.num_gpu_blocks_override == (engine.kv_cache_tokens or 0) // engine.block_size
    assert parsed.kv_transfer_config.kv_connector == "LMCacheMPConnector"
    assert (parsed.host, parsed.enable_prefix_caching) == ("127.0.0.1", True)


@pytest.mark.filterwarnings("ignore")
def test_lmcache_takes_every_option() -> None:
    """The L2 adapter is the sharded plugin, with one endpoint a rank."""
    from lmcache.cli.commands.server import ServerCommand  # noqa: PLC0415

    lmcache = _draw(CUDA).lmcache
    assert lmcache is not None
    parser = argparse.ArgumentParser()
    ServerCommand().add_arguments(parser)
    parsed = parser.parse_args(list(lmcache.argv[4:]))
    assert (parsed.http_host, parsed.chunk_size, parsed.l2_store_policy) == ("127.0.0.1", 256, "skip_l1")
    (adapter,) = parsed.l2_adapter
    spec = adapter if isinstance(adapter, dict) else json.loads(adapter)
    assert len(spec["adapter_params"]["endpoints"]) == 8


@pytest.mark.filterwarnings("ignore")
def test_lmcache_takes_the_file_of_in_process_mode(tmp_path: Path) -> None:
    """Every key of it is known to LMCache's own loader, and arrives with its value."""
    from lmcache.v1.config import LMCacheEngineConfig  # noqa: PLC0415

    lmcache = {"mode": "inprocess", "l1": "1GiB", "loads": "async", "store_policy": "skip_l1"}
    arm = Arm.model_validate({"name": "a", "lmcache": lmcache, "valkey": {"instances": 8, "placement": "rank"}})
    free = range(9000, 9000 + Ports.needed(arm))
    text = draw(
        CUDA, arm, model="org/name", kv_bytes=4096, link_bytes_per_s=0.0, free=free, folder=tmp_path
    ).lmcache_config
    file = tmp_path / "lmcache.yaml"
    file.write_text(text or "")
    config = LMCacheEngineConfig.from_file(str(file))
    written = yaml.safe_load(text or "")
    assert {key: getattr(config, key) for key in written} == written


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_command_line_and_file_is_taken(config: Path, tmp_path: Path) -> None:
    """vLLM, LMCache's server and its config loader know, by their own parsers, all that every arm gives them."""
    from lmcache.cli.commands.server import ServerCommand  # noqa: PLC0415
    from lmcache.v1.config import LMCacheEngineConfig  # noqa: PLC0415
    from vllm.entrypoints.launchers.cli_args import make_arg_parser  # noqa: PLC0415
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415

    for engine, arm, blueprint in arms(config):
        parsed: Any = make_arg_parser(FlexibleArgumentParser()).parse_args(list(blueprint.vllm.argv[3:]))
        assert parsed.prefill_context_parallel_size == engine.prefill_context_parallel
        assert (parsed.kv_transfer_config is None) == (arm.lmcache is None)
        if blueprint.lmcache is not None:
            parser = argparse.ArgumentParser()
            ServerCommand().add_arguments(parser)
            parser.parse_args(list(blueprint.lmcache.argv[4:]))
        if blueprint.lmcache_config is not None:
            file = tmp_path / "lmcache.yaml"
            file.write_text(blueprint.lmcache_config)
            loaded, written = LMCacheEngineConfig.from_file(str(file)), yaml.safe_load(blueprint.lmcache_config)
            assert {key: getattr(loaded, key) for key in written} == written
