"""Promises of harness.stack.diagnose."""

from pathlib import Path

import pytest

from harness.stack.diagnose import last_lines, remedy_for


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("Failed listening on port 6379 (tcp), Address already in use", "another program has this port"),
        ("RuntimeError: No handler registered for request type ENGINE_DRIVEN_CONTEXT", "--supported-transfer-mode"),
        ("api_server.py: error: unrecognized arguments: --nope", "engine.extra_args"),
        ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory", "more memory than is free"),
        ("ModuleNotFoundError: No module named 'cupy'", "make install-live"),
        ("something nobody has seen", "read the whole log"),
    ],
)
def test_a_known_cause_has_its_remedy(tmp_path: Path, line: str, remedy: str) -> None:
    """The log's tail is searched for what is known to go wrong."""
    log = tmp_path / "x.log"
    log.write_text(f"starting\n\x1b[31m{line}\x1b[0m\nbye\n")
    assert remedy in remedy_for(log)


def test_the_last_lines_are_those_that_say_something(tmp_path: Path) -> None:
    """Empty lines and colours are left out; at most twelve lines, however large the log is."""
    log = tmp_path / "x.log"
    log.write_text("".join(f"\x1b[32mline {i}\x1b[0m\n\n" for i in range(50_000)))
    lines = last_lines(log).splitlines()
    assert lines == [f"    | line {i}" for i in range(49_988, 50_000)]


def test_an_empty_or_missing_log_is_said_to_be_empty(tmp_path: Path) -> None:
    """A service that died before it said anything."""
    assert "empty" in last_lines(tmp_path / "none.log")
    assert remedy_for(tmp_path / "none.log") == "read the whole log"
