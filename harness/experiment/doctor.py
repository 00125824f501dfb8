"""What this machine can run."""

import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.errors import HarnessError
from harness.experiment.prepare import available_bytes
from harness.stack import free_ports, valkey

_MEMORY_GB = 8.0
_SHM_GB = 2.0
_INSTALL = "make install-live"
_SHM = "/dev/shm"  # noqa: S108 - where LMCache's L1 lives, not a place for temporary files


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: what was found, whether that will do, what to do if not.

    `needed` is False for what the live CPU stack does without.
    """

    name: str
    ok: bool
    found: str
    remedy: str = ""
    needed: bool = True


def examine() -> tuple[Check, ...]:
    """Every check, in the order in which they matter."""
    return tuple(_checks())


def missing() -> tuple[Check, ...]:
    """What keeps the live CPU stack from running here; empty if it can."""
    return tuple(check for check in examine() if check.needed and not check.ok)


def _checks() -> Iterator[Check]:
    linux = platform.system() == "Linux"
    yield Check("system", linux, platform.platform(), "the live CPU stack needs Linux; attach mode works here")
    flags = _cpu_flags()
    found = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else platform.machine()
    supported = "avx512f" in flags or "avx2" in flags or platform.machine() in {"aarch64", "arm64"}
    yield Check("processor", supported, found, "vLLM's CPU build needs AVX2 or AVX-512: use another machine, or attach")
    cores = len(os.sched_getaffinity(0)) if linux else os.cpu_count() or 1
    yield Check("cores", cores >= 2, str(cores), "two cores at least: one for the engine, one for everything else")
    memory = available_bytes()
    yield Check(
        "memory", memory is None or memory >= _MEMORY_GB * 1e9, f"{memory / 1e9:.1f} GB free" if memory else "unknown",
        f"configs/laptop.yaml needs about {_MEMORY_GB:.0f} GB: end other programs",
    )  # fmt: skip
    yield _shared_memory()
    yield Check("ports", True, f"free on 127.0.0.1, such as {free_ports(1)[0]}")
    for package in ("vllm", "lmcache"):
        yield _package(package)
    yield _valkey()
    gpu = shutil.which("nvidia-smi") is not None
    yield Check(
        "gpu", gpu, "nvidia-smi is there" if gpu else "none", "backend: vllm-cpu runs without one", needed=False
    )


def _package(name: str) -> Check:
    if importlib.util.find_spec(name) is None:
        return Check(name, False, "not installed", _INSTALL)
    for distribution in (name, f"{name}-cpu"):
        try:
            return Check(name, True, f"{distribution} {version(distribution)}")
        except PackageNotFoundError:
            continue
    return Check(name, True, "installed")


def _valkey() -> Check:
    try:
        return Check("valkey-server", True, str(valkey.binary()))
    except HarnessError as error:
        return Check("valkey-server", False, error.what, _INSTALL)


def _shared_memory() -> Check:
    folder = Path(_SHM)
    if not folder.is_dir():
        return Check(_SHM, False, "missing", "mount a tmpfs there: LMCache shares its L1 with the engine through it")
    free_gb = shutil.disk_usage(folder).free / 1e9
    return Check(_SHM, free_gb >= _SHM_GB, f"{free_gb:.1f} GB free", "mount -o remount,size=4G /dev/shm")


def _cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
