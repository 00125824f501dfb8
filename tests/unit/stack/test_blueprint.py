"""Promises of harness.stack.blueprint: the command lines of every arm, without starting anything."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.config import Arm, Bandwidth, Engine, Link, LMCache, Valkey
from harness.stack import Blueprint, Ports, draw
from harness.stack.vllm import omp_binding

CPU = Engine(backend="vllm-cpu", model="m", kv_cache_tokens=5632, block_size=128, max_model_len=4096)
LINK = Link.model_construct(bandwidth=Bandwidth(bytes_per_s=1e7), latency=0.002)


def _arm(instances: int = 0, *, link: bool = False, policy: str = "skip_l1") -> Arm:
    remote = Valkey(instances=instances, link=LINK if link else None) if instances else None
    lmcache = LMCache.model_construct(mode="mp", l1=2**30, store_policy=policy, chunk_size=256)
    return Arm(name="arm", lmcache=lmcache, valkey=remote)


def _draw(engine: Engine, arm: Arm) -> Blueprint:
    free = range(9000, 9000 + Ports.needed(arm))
    return draw(engine, arm, model="/models/m", kv_bytes=4096, link_bytes_per_s=1e7, free=free, folder=Path("logs"))


def _inprocess(instances: int = 0, *, loads: str = "sync", placement: str = "chunk", policy: str = "skip_l1") -> Arm:
    lmcache = {"mode": "inprocess", "l1": "1GiB", "loads": loads, "store_policy": policy}
    remote = {"valkey": {"instances": instances, "placement": placement}} if instances else {}
    return Arm.model_validate({"name": "arm", "lmcache": lmcache, **remote})


def _value(argv: tuple[str, ...], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_recompute_is_vllm_alone() -> None:
    """No connector, no other process; the cache is exact: 5,632 tokens are 44 blocks of 128."""
    blueprint = _draw(CPU, Arm(name="recompute"))
    (vllm,) = blueprint.commands
    assert "--kv-transfer-config" not in vllm.argv
    assert _value(vllm.argv, "--num-gpu-blocks-override") == "44"
    assert _value(vllm.argv, "--max-model-len") == "4096"
    assert vllm.env["VLLM_CPU_KVCACHE_SPACE"] == "1"


def test_lmcache_talks_to_the_links_and_the_links_to_the_valkeys() -> None:
    """Every instance sits behind a link of its own; vLLM's connector has the server's port."""
    blueprint = _draw(CPU, _arm(4, link=True))
    ports = blueprint.ports
    assert [command.name for command in blueprint.commands] == [
        *(f"valkey-{i}" for i in range(4)),
        "link",
        "lmcache",
        "vllm",
    ]
    assert blueprint.link is not None
    assert blueprint.engines[0].lmcache is not None
    pairs = [blueprint.link.argv[i + 1] for i, word in enumerate(blueprint.link.argv) if word == "--link"]
    assert pairs == [f"{a}:{b}" for a, b in zip(ports.links, ports.valkeys, strict=True)]
    adapter: dict[str, Any] = json.loads(_value(blueprint.engines[0].lmcache.argv, "--l2-adapter"))
    assert adapter["adapter_params"]["endpoints"] == [f"127.0.0.1:{port}" for port in ports.links]
    connector = json.loads(_value(blueprint.engines[0].vllm.argv, "--kv-transfer-config"))
    assert connector["kv_connector_extra_config"]["lmcache.mp.port"] == ports.engines[0].lmcache_zmq
    assert _value(blueprint.engines[0].lmcache.argv, "--port") == str(ports.engines[0].lmcache_zmq)


def test_without_a_link_lmcache_talks_to_the_valkeys() -> None:
    """One instance is the same client as N, so that arms differ in the number only."""
    blueprint = _draw(CPU, _arm(1))
    assert blueprint.link is None
    assert blueprint.engines[0].lmcache is not None
    adapter = json.loads(_value(blueprint.engines[0].lmcache.argv, "--l2-adapter"))
    assert adapter["type"] == "native_plugin"
    assert adapter["adapter_params"]["endpoints"] == [f"127.0.0.1:{blueprint.ports.valkeys[0]}"]


def test_each_valkey_is_set_up_as_the_config_says() -> None:
    """Threads, memory, eviction and cores arrive as Valkey's own options; without them none is given."""
    remote = Valkey.model_validate(
        {"instances": 2, "io_threads": 4, "maxmemory": "1GiB", "eviction": "allkeys-lru", "cpus": ["0", "1,3-5"]}
    )
    arm = _arm(2).model_copy(update={"valkey": remote})
    second = _draw(CPU, arm).valkeys[1].argv
    assert _value(second, "--io-threads") == "4"
    assert (_value(second, "--maxmemory"), _value(second, "--maxmemory-policy")) == (str(2**30), "allkeys-lru")
    assert _value(second, "--server-cpulist") == "1,3-5"
    plain = _draw(CPU, _arm(2)).valkeys[1].argv
    assert not {"--io-threads", "--maxmemory", "--server-cpulist"} & set(plain)


def test_the_host_arm_has_no_adapter_and_keeps_what_it_stores() -> None:
    """L1 only: no L2, LMCache's default store policy."""
    blueprint = _draw(CPU, _arm(policy="default"))
    assert blueprint.engines[0].lmcache is not None
    assert "--l2-adapter" not in blueprint.engines[0].lmcache.argv
    assert _value(blueprint.engines[0].lmcache.argv, "--l2-store-policy") == "default"
    assert _value(blueprint.engines[0].lmcache.argv, "--l1-size-gb") == "1"


def test_the_cuda_command_line_has_no_cpu_settings_and_the_parallel_sizes() -> None:
    """The same code drives a GPU build: sizes as flags, nothing of the CPU build in its environment."""
    engine = Engine(
        backend="vllm", model="org/name", block_size=16, tensor_parallel=2, prefill_context_parallel=8,
        extra_args=("--gpu-memory-utilization", "0.9"),
    )  # fmt: skip
    vllm = _draw(engine, _arm(8)).engines[0].vllm
    assert _value(vllm.argv, "--tensor-parallel-size") == "2"
    assert _value(vllm.argv, "--prefill-context-parallel-size") == "8"
    assert "--data-parallel-size" not in vllm.argv
    assert "--num-gpu-blocks-override" not in vllm.argv
    assert vllm.argv[-2:] == ("--gpu-memory-utilization", "0.9")
    assert not any(name.startswith("VLLM_CPU") for name in vllm.env)


def test_nothing_leaves_the_machine() -> None:
    """Telemetry off, every address a loopback one."""
    for command in _draw(CPU, _arm(2, link=True)).commands:
        assert "0.0.0.0" not in command.shell()  # noqa: S104
    vllm = _draw(CPU, _arm(1)).engines[0].vllm
    assert (vllm.env["VLLM_NO_USAGE_STATS"], vllm.env["LMCACHE_TRACK_USAGE"]) == ("1", "false")


@given(st.integers(1, 64), st.booleans(), st.integers(1, 4))
def test_no_two_services_share_a_port(instances: int, link: bool, replicas: int) -> None:
    """Every port that an arm needs is dealt once."""
    arm = _arm(instances, link=link)
    ports = Ports.of(arm, replicas, range(Ports.needed(arm, replicas)))
    engines = [port for own in ports.engines for port in (own.vllm, own.lmcache_zmq, own.lmcache_http)]
    assert sorted([*engines, *ports.valkeys, *ports.links]) == list(range(Ports.needed(arm, replicas)))
    assert len(ports.engines) == replicas
    assert len(ports.valkeys) == len(ports.links) == instances


@pytest.mark.parametrize(
    ("ranks", "cores", "binding"),
    [
        (1, [0, 1], "0"),
        (2, [0, 1], "0|1"),
        (1, [2, 3, 6, 7], "2,3,6"),
        (2, [0, 1, 2, 3, 4], "0,1|2,3"),
        (1, [5], "5"),
    ],
)
def test_ranks_have_cores_of_their_own_and_leave_one(ranks: int, cores: list[int], binding: str) -> None:
    """Equal groups; the last core serves LMCache, Valkey and the client where there is one to spare."""
    assert omp_binding(ranks, cores) == binding


def test_arms_with_and_without_lmcache_compute_on_the_same_cores() -> None:
    """vLLM's own choice differs between the two: it would compare engines of different size."""
    plain, remote = (_draw(CPU, arm).engines[0].vllm.env for arm in (Arm(name="a"), _arm(1)))
    assert plain["VLLM_CPU_OMP_THREADS_BIND"] == remote["VLLM_CPU_OMP_THREADS_BIND"] != "auto"


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_of_a_cpu_engine_do_not_yield_in_a_loop(ranks: int) -> None:
    """They would starve LMCache's server; a single rank waits for nobody."""
    env = _draw(CPU.model_copy(update={"tensor_parallel": ranks}), _arm(1)).engines[0].vllm.env
    assert env.get("VLLM_USE_SPINLOOP_EXT") == (None if ranks == 1 else "1")


def test_in_process_lmcache_is_a_file_that_vllm_reads() -> None:
    """No server of its own; loads in the step or beside it, as the arm says, and every hit from the Valkeys."""
    for loads in ("sync", "async"):
        blueprint = _draw(CPU, _inprocess(2, loads=loads))
        assert [command.name for command in blueprint.commands] == ["valkey-0", "valkey-1", "vllm"]
        assert blueprint.engines[0].vllm.env["LMCACHE_CONFIG_FILE"] == str(blueprint.lmcache_file)
        document = yaml.safe_load(blueprint.lmcache_config or "")
        assert (document["enable_async_loading"], document["local_cpu"]) == (loads == "async", False)
        extra = document["extra_config"]
        assert extra["kvreplay.endpoints"] == [f"127.0.0.1:{port}" for port in blueprint.ports.valkeys]
        connector = json.loads(_value(blueprint.engines[0].vllm.argv, "--kv-transfer-config"))
        assert connector["kv_connector_module_path"] == "harness.plugins.cpu_lmcache_connector"
        assert connector["kv_load_failure_policy"] == "recompute"


def test_in_process_every_rank_serves_its_metrics() -> None:
    """On this machine only, from the engine's own port on, which LMCache counts from the scheduler's."""
    engine = CPU.model_copy(update={"tensor_parallel": 2})
    blueprint = _draw(engine, _inprocess())
    document = yaml.safe_load(blueprint.lmcache_config or "")
    assert document["internal_api_server_enabled"]
    assert document["internal_api_server_host"] == "127.0.0.1"
    assert document["internal_api_server_include_index_list"] == [1, 2]
    (one,), (ports,) = blueprint.engines, blueprint.ports.engines
    assert int(one.vllm.env["LMCACHE_INTERNAL_API_SERVER_PORT_START"]) == ports.lmcache_http - 1


def test_in_process_on_cuda_is_lmcaches_own_connector() -> None:
    """Ours is for a CPU only; with placement by rank every rank writes, also where the model has MLA."""
    engine = Engine(backend="vllm", model="org/name", prefill_context_parallel=8)
    blueprint = _draw(engine, _inprocess(8, placement="rank"))
    connector = json.loads(_value(blueprint.engines[0].vllm.argv, "--kv-transfer-config"))
    assert connector["kv_connector"] == "LMCacheConnectorV1"
    assert "kv_connector_module_path" not in connector
    document = yaml.safe_load(blueprint.lmcache_config or "")
    assert document["lookup_server_worker_ids"] == list(range(8))
    extra = document["extra_config"]
    assert (extra["save_only_first_rank"], extra["remote_enable_mla_worker_id_as0"]) == (False, False)


def test_in_process_without_valkey_is_the_host_tier() -> None:
    """No plugin is named, and hits stay in host memory."""
    document = yaml.safe_load(_draw(CPU, _inprocess(policy="default")).lmcache_config or "")
    assert document["local_cpu"] is True
    assert document["max_local_cpu_size"] == 1
    assert "remote_storage_plugins" not in document
    assert _draw(CPU, _arm()).lmcache_config is None


def test_replicas_are_engines_of_their_own_behind_one_remote_tier() -> None:
    """Each has a vLLM, an LMCache, a segment and cores of its own; their LMCaches have the same Valkey."""
    engine = CPU.model_copy(update={"replicas": 2})
    arm = _arm(1)
    free = range(9000, 9000 + Ports.needed(arm, 2))
    blueprint = draw(engine, arm, model="m", kv_bytes=1, link_bytes_per_s=0.0, free=free, folder=Path("logs"))
    names = [command.name for command in blueprint.commands]
    assert names == ["valkey-0", "lmcache", "lmcache-1", "vllm", "vllm-1"]
    adapters, segments = set(), set()
    for one, own in zip(blueprint.engines, blueprint.ports.engines, strict=True):
        assert one.lmcache is not None
        adapters.add(_value(one.lmcache.argv, "--l2-adapter"))
        segments.add(_value(one.lmcache.argv, "--shm-name"))
        connector = json.loads(_value(one.vllm.argv, "--kv-transfer-config"))
        assert connector["kv_connector_extra_config"]["lmcache.mp.port"] == own.lmcache_zmq
    assert (len(adapters), len(segments)) == (1, 2)
