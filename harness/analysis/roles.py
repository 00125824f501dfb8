"""Which arm is what: the one that recomputes, those with a remote tier."""

from collections.abc import Mapping
from typing import Any

from harness.model.placement import Placement

_CHUNK_TOKENS = 256  # of runs whose spec does not say


def recompute_arm(meta: Mapping[str, Any]) -> str | None:
    """The first arm without LMCache, to which the others are compared; None if every arm has it."""
    return next((str(arm["name"]) for arm in _arms(meta) if not arm.get("lmcache")), None)


def host_arm(meta: Mapping[str, Any]) -> str | None:
    """The first arm with LMCache and no Valkey behind it; None without one."""
    return next((str(arm["name"]) for arm in _arms(meta) if arm.get("lmcache") and not arm.get("valkey")), None)


def remote_arms(meta: Mapping[str, Any]) -> dict[str, int]:
    """The arms with Valkey and the number of instances of each, in the order of the spec."""
    return {str(arm["name"]): int(arm["valkey"]["instances"]) for arm in _arms(meta) if arm.get("valkey")}


def arms_with_lmcache(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """The arms with LMCache, in the order of the spec."""
    return tuple(str(arm["name"]) for arm in _arms(meta) if arm.get("lmcache"))


def placements(meta: Mapping[str, Any]) -> dict[str, Placement]:
    """How each arm with Valkey places prompts: equal parts, one a rank, or whole chunks by their hash."""
    return {
        str(arm["name"]): Placement(
            int(arm["valkey"]["instances"]),
            None if arm["valkey"].get("placement") == "rank" else int(arm["lmcache"].get("chunk_size", _CHUNK_TOKENS)),
        )
        for arm in _arms(meta)
        if arm.get("valkey") and arm.get("lmcache")
    }


def in_step_arms(meta: Mapping[str, Any]) -> frozenset[str]:
    """The arms whose loads run inside the engine's step: LMCache in its workers, unless told to load beside it."""
    held = (
        str(arm["name"])
        for arm in _arms(meta)
        if (arm.get("lmcache") or {}).get("mode") == "inprocess" and arm["lmcache"].get("loads") != "async"
    )
    return frozenset(held)


def _arms(meta: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((meta.get("spec") or {}).get("arms") or [])
