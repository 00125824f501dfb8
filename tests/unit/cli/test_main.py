"""Promises of the command line: exit codes, errors as one block, nothing started by `plan`."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.cli.main import main

LAPTOP = Path(__file__).parents[3] / "configs" / "laptop.yaml"


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["kvreplay", *arguments])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_a_mistake_in_a_config_is_one_block_and_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What, where (file:line), what to do; no traceback, nothing on stdout."""
    path = tmp_path / "x.yaml"
    path.write_text(LAPTOP.read_text().replace("seed: 0", "sed: 0"))
    assert _run(monkeypatch, "run", str(path)) == 2
    out, err = capsys.readouterr()
    line = LAPTOP.read_text().splitlines().index("seed: 0") + 1
    assert out == ""
    assert err.startswith(f"error: sed: unknown key\n  where: {path}:{line}\n  to do: write 'seed'")
    assert "Traceback" not in err


def test_plan_prints_every_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Six arms: 6 engines, 3 LMCaches, 4 link programs, 10 Valkeys; R assumed, so rates and loads are numbers."""
    assert _run(monkeypatch, "plan", str(LAPTOP), "--json", "--prefill-rate", "9200") == 0
    document = json.loads(capsys.readouterr().out)
    names = [command["name"].partition("-")[0] for arm in document["arms"] for command in arm["commands"]]
    assert {name: names.count(name) for name in set(names)} == {"vllm": 6, "lmcache": 3, "link": 4, "valkey": 10}
    trace = document["workloads"][1]
    assert trace["rate_per_s"] == pytest.approx(9200 * 1.13 * 0.34 / 1280, rel=1e-3)
    assert trace["arms"]["valkey-1"].endswith("rho 1.13")


def test_plan_without_r_says_what_is_open(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is invented: what the probe will set is named so."""
    assert _run(monkeypatch, "plan", str(LAPTOP)) == 0
    out = capsys.readouterr().out
    assert "R is measured when the run starts" in out
    assert "--bytes-per-s '0.34*BSTAR'" in out


def test_a_folder_that_is_no_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`report` of anything else: exit 2."""
    assert _run(monkeypatch, "report", str(tmp_path)) == 2
    assert "run.json is missing" in capsys.readouterr().err


def test_down_with_nothing_up_is_fine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It says so and exits 0."""
    assert _run(monkeypatch, "down") == 0
    assert "nothing is up" in capsys.readouterr().out


def test_up_with_a_link_in_bstar_needs_r(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`up` measures nothing: a multiple of B* is refused without R, before anything starts."""
    if find_spec("vllm") is None:
        pytest.skip("the live stack is not installed")
    assert _run(monkeypatch, "up", str(LAPTOP), "--arm", "valkey-1", "--foreground") == 2
    assert "--prefill-rate" in capsys.readouterr().err


def test_the_command_line_starts_without_what_only_reports_need() -> None:
    """pandas, scipy and plotly take seconds to import: no verb waits for them before it has said something."""
    code = "import sys, harness.cli.main; print({'pandas', 'scipy', 'plotly'} & set(sys.modules))"
    out = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=LAPTOP.parents[1]
    )
    assert out.stdout.strip() == "set()"
