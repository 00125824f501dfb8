"""From a config to what the simulators want: caches and rates of an arm, and the plan with its answers cut."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.config import Arm, Bandwidth, Engine, Experiment, LMCache, SimulatedArm
from harness.errors import ConfigError
from harness.experiment.machine import Machine
from harness.records import Cell
from harness.schedule import PassPlan, Plan
from harness.sim import CacheSpec, HostSpec, LMCacheSpec, RemoteSpec, Service

_VALKEY_POLICY = {"noeviction": None, "allkeys-lru": "lru", "allkeys-lfu": "lfu", "allkeys-random": "random"}
_NO_PREFIX_CACHE = "--no-enable-prefix-caching"
_SERVER_LOADS = 8  # LMCache 0.5.5, --l2-prefetch-max-in-flight
_INPROCESS_LOADS = 1  # v1/storage_backend/storage_manager.py: AsyncSingleSerializer
_INPROCESS_POLL_S = 0.01  # v1/lookup_client/lmcache_async_lookup_client.py: lookup_backoff_time

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Costs:
    """R behind the fixed cost of a step, that cost, and T0: of the config, or of what an arm did while it warmed up.

    The spreads are those of sim.Service: how much longer than usual prompts took, and how much more than T0 hits did.
    """

    prefill_tokens_per_s: float
    step_s: float
    hit_fixed_s: float
    prefill_spread: tuple[float, ...] = (1.0,)
    hit_fixed_spread_s: tuple[float, ...] = (0.0,)


def costs_in(experiment: Experiment, arm: Arm, machine: Machine) -> Costs:
    """Those that the config gives."""
    simulation, own = experiment.simulation, _ours(experiment, arm).hit_fixed
    return Costs(machine.prefill_tokens_per_s, simulation.step, simulation.hit_fixed if own is None else own)


def cache_spec(experiment: Experiment, arm: Arm, kv_bytes: int | None) -> CacheSpec:
    """The caches of an arm. Raises ConfigError for what they need and the config does not say, or cannot be."""
    engine = experiment.engine
    if engine.replicas > 1:
        raise ConfigError(
            f"{engine.replicas} engines before one remote tier are not simulated",
            where="engine.replicas",
            remedy="simulate one of them: replicas: 1",
        )
    if engine.kv_cache_tokens is None:
        raise ConfigError(
            "how large is vLLM's own KV cache?",
            where="engine.kv_cache_tokens",
            remedy="write engine.kv_cache_tokens: what vLLM prints as its KV cache size",
        )
    lmcache = None
    if arm.lmcache is not None:
        if kv_bytes is None:
            raise ConfigError(
                "s, the KV bytes of a token, is not known for this model",
                where="simulation.kv_bytes_per_token",
                remedy="write simulation.kv_bytes_per_token, such as 28672B, or give the model's folder",
            )
        lmcache = _checked(arm, lambda: _lmcache_spec(experiment, arm, arm.lmcache, kv_bytes))
    caching = _NO_PREFIX_CACHE not in engine.extra_args
    return CacheSpec(engine.kv_cache_tokens // engine.block_size, engine.block_size, lmcache, caching)


def service_of(experiment: Experiment, arm: Arm, costs: Costs, machine: Machine | None) -> Service:
    """The rates of an arm. Links take their rates from `machine`; None: no link has one.

    Raises ConfigError for a rate or cost that cannot be.
    """
    simulation, ours = experiment.simulation, _ours(experiment, arm)
    rate = math.inf if machine is None else machine.link_bytes_per_s(arm) or math.inf
    inside = arm.lmcache is not None and arm.lmcache.mode == "inprocess"

    def given(bandwidth: Bandwidth | None) -> float | None:
        return None if bandwidth is None else bandwidth.resolve(machine.bstar_bytes_per_s if machine else math.nan)

    return _checked(
        arm,
        lambda: Service(
            prefill_tokens_per_s=costs.prefill_tokens_per_s,
            step_s=costs.step_s,
            hit_fixed_s=costs.hit_fixed_s,
            prefill_spread=costs.prefill_spread,
            hit_fixed_spread_s=costs.hit_fixed_spread_s,
            loads="in-step" if arm.lmcache is not None and arm.lmcache.in_step else "asynchronous",
            loads_in_flight=simulation.loads_in_flight or (_INPROCESS_LOADS if inside else _SERVER_LOADS),
            instance_bytes_per_s=(rate,) * (arm.valkey.instances if arm.valkey is not None else 0),
            instance_cv=simulation.instance_cv,
            copies_in_turn=experiment.engine.backend == "vllm-cpu",
            lookup_steps=1 if inside else 2,
            lookup_poll_s=_INPROCESS_POLL_S if inside else 0.0,
            host_bytes_per_s=given(simulation.host_bandwidth) or math.inf,
            stores=simulation.stores,
            writer_bytes_per_s=given(ours.writer_bandwidth),
            batched_tokens=simulation.batched_tokens,
            running=simulation.running,
            seed=experiment.seed,
        ),
    )


def machine_in(experiment: Experiment, kv_bytes: int | None, prompt_tokens: int) -> Machine | None:
    """The machine that the `simulation` block describes; None where it gives no R, or nobody knows s."""
    rate = experiment.simulation.prefill_tokens_per_s
    return None if rate is None or kv_bytes is None else Machine(rate, kv_bytes, prompt_tokens)


def hashing_of(lmcache: LMCache) -> str:
    """How LMCache hashes chunks, as the stack starts it."""
    return "sha256_cbor" if lmcache.mode == "inprocess" else "blake3"


def with_answers_cut(plan: Plan, most: int | None) -> Plan:
    """The plan with no answer of more than `most` tokens."""
    if most is None:
        return plan

    def cut(part: PassPlan) -> PassPlan:
        return replace(
            part, requests=tuple(replace(one, max_tokens=min(one.max_tokens, most)) for one in part.requests)
        )

    return Plan.of(plan.workload, tuple(map(cut, plan.passes)), cut(plan.prewarm) if plan.prewarm else None)


def policies_that_never_act(experiment: Experiment, arm: Arm) -> Iterator[str]:
    """In words: policies that were asked for, in a tier that never gives anything up."""
    ours, lmcache = _ours(experiment, arm), arm.lmcache
    if ours.host_policy != "lru" and (lmcache is None or lmcache.store_policy == "skip_l1"):
        yield f"host_policy {ours.host_policy} changes nothing: host memory keeps nothing here (skip_l1)"
    if ours.remote_policy is not None and (arm.valkey is None or arm.valkey.maxmemory is None):
        yield f"remote_policy {ours.remote_policy} changes nothing: without maxmemory no instance is ever full"


def cell_of(experiment: Experiment, arm: Arm, workload: str, repeat: int, run_id: str = "sim") -> Cell:
    """Where simulated records belong; the pass is filled in as each is simulated."""
    return Cell(run_id, experiment.experiment, arm.name, workload, "", repeat, "-sim", 0, 0)


def _lmcache_spec(experiment: Experiment, arm: Arm, lmcache: LMCache | None, kv_bytes: int) -> LMCacheSpec:
    assert lmcache is not None  # noqa: S101 - the caller looked
    ours = _ours(experiment, arm)
    inside = lmcache.mode == "inprocess"
    chunk_bytes = lmcache.chunk_size * kv_bytes
    host = None
    if lmcache.store_policy != "skip_l1":
        l1 = lmcache.l1 * (experiment.engine.ranks if inside else 1)
        host = HostSpec(l1 // chunk_bytes, ours.host_policy, None if inside else 0.8)
    return LMCacheSpec(
        chunk_tokens=lmcache.chunk_size,
        chunk_bytes=chunk_bytes,
        host=host,
        remote=None if arm.valkey is None else _remote_spec(experiment.engine, arm, ours),
        fetches_whole=not lmcache.in_step,
        keeps_fetched=inside,
        stores_answers=not inside,
        hashing=hashing_of(lmcache),
    )


def _remote_spec(engine: Engine, arm: Arm, ours: SimulatedArm) -> RemoteSpec:
    assert arm.valkey is not None  # noqa: S101 - the caller looked
    return RemoteSpec(
        instances=arm.valkey.instances,
        placement=ours.placement or arm.valkey.placement,
        ranks=engine.ranks,
        instance_bytes=arm.valkey.maxmemory,
        policy=ours.remote_policy or _VALKEY_POLICY[arm.valkey.eviction],
    )


def _ours(experiment: Experiment, arm: Arm) -> SimulatedArm:
    return experiment.simulation.arms.get(arm.name, SimulatedArm())


def _checked(arm: Arm, make: Callable[[], Made]) -> Made:
    """What `make` makes; what a simulator refuses is the config's mistake."""
    try:
        return make()
    except ValueError as error:
        raise ConfigError(f"arm {arm.name}: {error}", where=f"arm {arm.name}", remedy="correct the config") from error
