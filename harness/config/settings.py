"""One value of a config changed for one call, before it is checked: `simulate --set NAME=VALUE`, `run --seed`."""

from collections.abc import Callable, Mapping
from typing import Any

from harness.errors import ConfigError

Document = dict[str, Any]

_FACTORS = {"k": 1e3, "M": 1e6}


def apply_settings(document: Document, settings: Mapping[str, str]) -> None:
    """Write settings into a config as YAML gave it. Raises ConfigError for one that is not known or fits nowhere."""
    for name, text in settings.items():
        if name not in SETTINGS:
            raise ConfigError(f"--set {name}={text}", where="--set", remedy=f"use one of {', '.join(SETTINGS)}")
        if not SETTINGS[name](document, text):
            raise ConfigError(
                f"--set {name}={text}: nothing in this config has it", where="--set", remedy="leave it out"
            )


def _resets(document: Document, text: str) -> bool:
    """Leave to empty more caches of every server that is attached to."""
    engine, arms = document.get("engine"), document.get("arms")
    places = [engine, *(arms if isinstance(arms, list) else ())]
    blocks = [place["attach"] for place in places if isinstance(place, dict) and isinstance(place.get("attach"), dict)]
    for block in blocks:
        block["resets"] = list(dict.fromkeys([*(block.get("resets") or ()), *text.split(",")]))
    return bool(blocks)


def _seed(document: Document, text: str) -> bool:
    document["seed"] = _number(text)
    return True


def _in_simulation(key: str, parse: Callable[[str], object] = str) -> Callable[[Document, str], bool]:
    def change(document: Document, text: str) -> bool:
        document.setdefault("simulation", {})[key] = parse(text)
        return True

    return change


def _in_block(block: str, key: str) -> Callable[[Document, str], bool]:
    def change(document: Document, text: str) -> bool:
        document.setdefault(block, {})[key] = _number(text)
        return True

    return change


def _in_arms(block: str, key: str, parse: Callable[[str], object]) -> Callable[[Document, str], bool]:
    def change(document: Document, text: str) -> bool:
        having = _arms_with(document, block)
        for arm in having:
            arm[block][key] = parse(text)
        return bool(having)

    return change


def _in_policies(block: str, key: str) -> Callable[[Document, str], bool]:
    """A policy of every arm that has the block, in its entry of `simulation.arms`."""

    def change(document: Document, text: str) -> bool:
        having = [arm["name"] for arm in _arms_with(document, block) if "name" in arm]
        entries = document.setdefault("simulation", {}).setdefault("arms", {}) if having else {}
        for name in having:
            entries.setdefault(name, {})[key] = text
        return bool(having)

    return change


def _in_traces(key: str) -> Callable[[Document, str], bool]:
    def change(document: Document, text: str) -> bool:
        having = [one["trace"] for one in document.get("workloads") or () if isinstance(one, dict) and one.get("trace")]
        for trace in having:
            trace[key] = text
        return bool(having)

    return change


def _arms_with(document: Document, block: str) -> list[Document]:
    return [arm for arm in document.get("arms") or () if isinstance(arm, dict) and arm.get(block)]


def _number(text: str) -> float | int | str:
    """52.2k, 9200; what is no number stays text, for the config's own check to refuse."""
    factor = _FACTORS.get(text[-1:], 1.0)
    try:
        value = float(text.removesuffix(text[-1:]) if factor != 1 else text) * factor
    except ValueError:
        return text
    return int(value) if value.is_integer() else value


SETTINGS: Mapping[str, Callable[[Document, str], bool]] = {
    "R": _in_simulation("prefill_tokens_per_s", _number),
    "s": _in_simulation("kv_bytes_per_token"),
    "T0": _in_simulation("hit_fixed"),
    "step": _in_simulation("step"),
    "running": _in_simulation("running", _number),
    "batched_tokens": _in_simulation("batched_tokens", _number),
    "loads_in_flight": _in_simulation("loads_in_flight", _number),
    "stores": _in_simulation("stores"),
    "B": _in_arms("valkey", "link", lambda text: {"bandwidth": text}),
    "instances": _in_arms("valkey", "instances", _number),
    "kv_cache_tokens": _in_block("engine", "kv_cache_tokens"),
    "block_size": _in_block("engine", "block_size"),
    "l1": _in_arms("lmcache", "l1", str),
    "chunk_size": _in_arms("lmcache", "chunk_size", _number),
    "maxmemory": _in_arms("valkey", "maxmemory", str),
    "host_policy": _in_policies("lmcache", "host_policy"),
    "remote_policy": _in_policies("valkey", "remote_policy"),
    "trace": _in_traces("file"),
    "workers": _in_block("client", "workers"),
    "seed": _seed,
    "resets": _resets,
}
"""By name: what writes a value into a config, and says whether anything there has it."""
