"""What a service's log says about why it failed, and what to do about it."""

import re
from pathlib import Path

_TAIL_BYTES = 64 * 1024
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
# What logs say, and the remedy. First match wins.
_REMEDIES = (
    (
        r"(?i:address already in use)|Could not create server TCP listening socket",
        "another program has this port: end it, or run again (ports are chosen anew)",
    ),
    (
        r"No handler registered for request type",
        "LMCache does not know this worker's transfer mode: it needs --supported-transfer-mode auto and --shm-name",
    ),
    (
        r"not enough NUMA nodes",
        "bind each rank to cores of its own: VLLM_CPU_OMP_THREADS_BIND='0|1' for two ranks",
    ),
    (
        r"operator torchvision::nms does not exist",
        "remove torchvision from the environment: the CPU engine does not use it",
    ),
    (
        r"No available memory for the cache blocks|larger than the available KV cache memory|exceeds the available KV",
        "lower engine.kv_cache_tokens or engine.max_model_len",
    ),
    (
        r"MemoryError|Cannot allocate memory|out of memory|OutOfMemory|DefaultCPUAllocator",
        "model and caches need more memory than is free: use a smaller model, kv_cache_tokens or l1",
    ),
    (r"unrecognized arguments", "engine.extra_args holds an option that this vLLM does not know"),
    (r"max_model_len.*greater than the derived", "engine.max_model_len is above what the model allows"),
    (
        r"ModuleNotFoundError|ImportError",
        "an installed package is missing or of a wrong version: run `make install-live`",
    ),
)


def last_lines(log: Path, count: int = 12) -> str:
    """The last `count` non-empty lines of a log, without colours, indented for an error block."""
    lines = [line for line in _tail(log).splitlines() if line.strip()]
    return "\n".join(f"    | {line[:240]}" for line in lines[-count:]) or "    | (the log is empty)"


def last_line(log: Path) -> str:
    """The last non-empty line of a log, without colours."""
    return next((line.strip()[:240] for line in reversed(_tail(log).splitlines()) if line.strip()), "(nothing)")


def remedy_for(log: Path) -> str:
    """What to do, if the log's tail holds a known cause; else where to look."""
    tail = _tail(log)
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, tail):
            return remedy
    return "read the whole log"


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return _ANSI.sub("", file.read().decode(errors="replace"))
    except OSError:
        return ""
