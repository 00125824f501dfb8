"""Fake servers of this folder, each in a process of its own that prints its URL first and ends on SIGTERM."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_HERE = Path(__file__).parent


@contextlib.contextmanager
def null_server(ttft_s: float) -> Iterator[str]:
    """The URL of a null server with that time to its first token."""
    with _running("null_server.py", "--ttft-s", str(ttft_s)) as url:
        yield url


@contextlib.contextmanager
def cached_engine(**knobs: float | str) -> Iterator[str]:
    """The URL of an engine with a remote cache whose every time is known; its knobs are cached_engine.py's options."""
    options = [text for name, value in knobs.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    with _running("cached_engine.py", *options) as url:
        yield url


@contextlib.contextmanager
def _running(script: str, *options: str) -> Iterator[str]:
    server = subprocess.Popen([sys.executable, str(_HERE / script), *options], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.communicate()
