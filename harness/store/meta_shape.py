"""The parts of run.json that readers rely on; each may be absent, as in a run that ended early, but not otherwise."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import RunFolderError

_NUMBER = (int, float)
_SPREAD = {"p50!": _NUMBER, "p99!": _NUMBER, "max!": _NUMBER}
_ERRORS = ("send_lag_ms", "arrival_error_ms", "ttft_error_ms", "itl_error_ms")
# A key ends in ! if it must be there and hold something, and is * if it stands for every key.
_SHAPE = {
    "spec": {
        "engine": {},
        "arms": [{"name!": str, "lmcache": {}, "valkey": {"instances!": int}}],
        "workloads": [{"name!": str, "trace": {}, "passes": {}}],
    },
    **{key: {} for key in ("versions", "machine", "model", "predictions")},
    "probe": dict.fromkeys(("prefill_tokens_per_s", "kv_bytes_per_token", "bstar_bytes_per_s"), _NUMBER),
    "arms": {"*": {"link_bytes_per_s": _NUMBER, "instances": int, "rho": _NUMBER}},
    "plans": {"*": {"hash": str, "rate_per_s": _NUMBER}},
    "planned": {"*": int},
    "caveats": [{"kind!": str, "text!": str, "remedy": str, "arm": str, "evidence": [str]}],
    "state_proofs": [
        {"arm!": str, "workload!": str, "repeat!": int, "kind!": str, "proved!": bool, "detail": str},
    ],
    "selftest": {
        **{f"{key}!": str for key in ("measured_at", "kvreplay", "http", "processor")},
        "workers!": int,
        "highest_rate_per_s": _NUMBER,
        "errors!": [
            {
                **{f"{key}!": str for key in ("client", "work")},
                **{f"{key}!": _NUMBER for key in ("requests", "failed", "rate_per_s")},
                "cpu_share": _NUMBER,
                **dict.fromkeys(_ERRORS, _SPREAD),
            }
        ],
    },
    "capacity_curves": {"*": [[_NUMBER]]},
}


def require_shape(meta: Mapping[str, Any], path: Path) -> None:
    """Raise RunFolderError where the run.json at `path` holds something else than kvreplay writes, by its key."""
    for trouble in _troubles(meta, _SHAPE, ""):
        raise RunFolderError(
            f"run.json is not as kvreplay writes it: {trouble}", where=str(path), remedy="restore it from a copy"
        )


def _troubles(value: Any, shape: Any, key: str) -> Iterator[str]:
    if value is None:
        return
    if isinstance(shape, dict):
        if not isinstance(value, Mapping):
            yield f"{key} is no mapping"
            return
        for name, part in shape.items():
            bare = name.removesuffix("!")
            if bare != name and value.get(bare) is None:
                yield f"{key} has no {bare!r}"
            for each in value if name == "*" else [bare]:
                yield from _troubles(value.get(each), part, f"{key}.{each}".lstrip("."))
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{key} is no list"
            return
        for at, each in enumerate(value):
            yield from _troubles(each, shape[0], f"{key}[{at}]")
    elif not isinstance(value, shape) or (isinstance(value, bool) and shape is not bool):
        yield f"{key} is {value!r}"
