"""`kvreplay selftest`, small, with the real null server in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def test_the_harness_measures_itself_and_keeps_it(tmp_path: Path) -> None:
    """Every error is there, no stamp is before its cause, and what was printed is what is kept for the reports."""
    arguments = ("--work", "512-200", "--work", "streams-100", "--scale", "0.01", "--json")
    ended = subprocess.run(
        [sys.executable, "-m", "harness.cli", "selftest", *arguments],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert json.loads((tmp_path / "kvreplay" / "selftest.json").read_text()) == told
    assert [(error["work"], error["requests"], error["failed"]) for error in told["errors"]] == [
        ("512-200", 30, 0),
        ("streams-100", 100, 0),
    ]
    short, streams = told["errors"]
    assert short["itl_error_ms"] is None
    assert streams["itl_error_ms"]["n"] == 100 * 99
    for error in told["errors"]:
        for name in ("send_lag_ms", "ttft_error_ms"):
            assert 0 <= error[name]["p50"] <= error[name]["p99"] <= error[name]["max"]
        assert error["arrival_error_ms"]["p50"] >= error["send_lag_ms"]["p50"]
