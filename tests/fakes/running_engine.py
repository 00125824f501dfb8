"""The engine of cached_engine.py, running in a process of its own."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def engine(**knobs: float) -> Iterator[str]:
    """The URL of a running engine."""
    options = [text for name, value in knobs.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    program = [sys.executable, str(Path(__file__).parent / "cached_engine.py"), *options]
    server = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.communicate()
