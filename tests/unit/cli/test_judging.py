"""The verbs that judge: their options and exit codes."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from harness.analysis import history_lines, summarise
from harness.cli.gate import share
from harness.cli.main import app
from harness.cli.slo import slo_limits
from harness.errors import HarnessError
from harness.store import open_run
from harness.store.history import append_history
from tests.fakes.folders import written
from tests.fakes.runs import FakePass, fake_run

TRUTH = np.random.default_rng(1).gamma(40, 5, size=200)


def folder_of(tmp_path: Path, factor: float, name: str, noise: float = 0.01, **meta: object) -> Path:
    """A run folder with one arm."""
    values = TRUTH * factor * np.random.default_rng(len(name)).lognormal(0, noise, size=len(TRUTH))
    return written(fake_run([FakePass("recompute", [float(ms) for ms in values])], **meta), tmp_path, name)


@pytest.mark.parametrize(("factor", "noise", "code"), [(1.0, 0.01, 0), (1.3, 0.01, 3), (1.05, 0.3, 4)])
def test_gate(tmp_path: Path, factor: float, noise: float, code: int) -> None:
    """0, 3 and 4 as the contract says, in --json too; JUnit is written whatever comes out."""
    old, new = (
        folder_of(tmp_path, 1.0, "20261101T000000Z-old", noise),
        folder_of(tmp_path, factor, "20261102T000000Z-newer", noise),
    )
    junit = tmp_path / "reports" / "gate.xml"
    ended = CliRunner().invoke(app, ["gate", str(new), "--baseline", str(old), "--json", "--junit", str(junit)])
    assert ended.exit_code == code
    assert json.loads(ended.stdout)["exit_code"] == code
    assert "testsuite" in junit.read_text()


def test_not_comparable_is_4(tmp_path: Path) -> None:
    """A run of another plan cannot be gated: exit 4, and the key on stderr."""
    old = folder_of(tmp_path, 1.0, "20261101T000000Z-old", plans={"trace/0": {"hash": "a"}})
    new = folder_of(tmp_path, 1.0, "20261102T000000Z-newer", plans={"trace/0": {"hash": "b"}})
    ended = CliRunner().invoke(app, ["gate", str(new), "--baseline", str(old)])
    assert ended.exit_code == 4
    assert "--allow plan.trace/0" in ended.stderr


def test_compare(tmp_path: Path) -> None:
    """As text and as one JSON document."""
    folder = folder_of(tmp_path, 1.0, "20261101T000000Z-old")
    arms = [f"{folder}:recompute", f"{folder}:recompute"]
    assert "not shown to differ" in CliRunner().invoke(app, ["compare", *arms]).stdout
    assert (
        json.loads(CliRunner().invoke(app, ["compare", *arms, "--json"]).stdout)["passes"][0]["p50"]
        == "not shown to differ"
    )


def test_export_and_index(tmp_path: Path) -> None:
    """Both print what they wrote."""
    folder = folder_of(tmp_path, 1.0, "20261101T000000Z-old")
    out = tmp_path / "requests.csv"
    assert CliRunner().invoke(app, ["export", str(folder), "--to", "csv", "--out", str(out)]).stdout.strip() == str(out)
    assert CliRunner().invoke(app, ["index", str(tmp_path)]).stdout.strip() == str(tmp_path / "index.html")


@pytest.mark.parametrize(("text", "expected"), [("5%", 0.05), ("0%", 0.0), (" 12.5% ", 0.125)])
def test_share(text: str, expected: float) -> None:
    """A share is written with a percent sign."""
    assert share(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["5", "five%", "-1%", "5%%", "", "nan%", "inf%"])
def test_no_share(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(HarnessError):
        share(text)


def test_slo() -> None:
    """Limits by metric, in ms; none of none."""
    assert slo_limits("ttft:2s, e2el:10s,tpot:25ms") == {"ttft": 2000, "e2el": 10_000, "tpot": 25}
    assert slo_limits(None) == {}


@pytest.mark.parametrize("text", ["ttft", "ttft:2", "speed:2s", "ttft:2s,ttft:3s", ",", "ttft:-2s"])
def test_no_slo(text: str) -> None:
    """A limit without a time, a unit or a known metric is refused, and so is a second one on the same."""
    with pytest.raises(HarnessError):
        slo_limits(text)


RANDOM = np.random.default_rng(4)
NIGHTS = 13
HISTORIES = {  # factors of the nights before tonight, whose own is the last; and the exit code that tells of them
    "stable": ([1.0] * (NIGHTS + 1), 0),
    "a step tonight": ([*[1.0] * NIGHTS, 1.3], 3),
    "a step some nights ago": ([*[1.0] * 8, *[1.3] * 6], 3),
    "drift": ([1.02**night for night in range(NIGHTS + 1)], 3),
    "an improvement": ([*[1.3] * 7, *[1.0] * 7], 0),
    "noise": ([float(one) for one in RANDOM.lognormal(0, 0.3, size=NIGHTS + 1)], 4),
    "few nights": ([1.0] * 4, 4),
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", HISTORIES)
def test_gate_on_a_history(tmp_path: Path, name: str, missing: bool) -> None:
    """0, 3 and 4 on made-up histories; nights on which nothing ran (every third here) change their number alone."""
    factors, code = HISTORIES[name]
    run = folder_of(tmp_path, factors[-1], "20261130T020000Z-tonight")
    opened = open_run(run)
    lines = history_lines(opened, summarise(opened, 20))
    history = tmp_path / "history.parquet"
    for night, factor in enumerate(factors[:-1]):
        if not (missing and night % 3 == 1):
            wobble = factor / factors[-1] * float(RANDOM.lognormal(0, 0.005))
            of_night = {"run_id": f"{night:06}", "utc": f"202611{night + 1:02}T020000Z"}
            times = [
                line | of_night | ({"value": line["value"] * wobble} if line["unit"] == "ms" else {}) for line in lines
            ]
            append_history(history, times)
    ended = CliRunner().invoke(app, ["gate", str(run), "--history", str(history), "--json"])
    assert ended.exit_code == json.loads(ended.stdout)["exit_code"] == code
