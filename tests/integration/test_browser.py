"""The pages in a real browser: nothing on the console, every chart drawn, tables as wide as they must be.

Chromium is driven over its own command line (`--headless --dump-dom`); without it these tests are skipped.
"""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from harness.experiment.index import write_index
from harness.experiment.report import write_reports
from tests.fakes.folders import written
from tests.fakes.runs import FakePass, fake_run

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = [pytest.mark.integration, pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")]

RANDOM = np.random.default_rng(5)
PROBE = """
<script>
window.noted = [];
addEventListener("error", (event) => noted.push("error: " + event.message));
for (const level of ["error", "warn"]) {
  const before = console[level];
  console[level] = (...words) => { noted.push(level + ": " + words.join(" ")); before.apply(console, words); };
}
addEventListener("load", () => setTimeout(() => {
  const drawn = [...document.querySelectorAll(".js-plotly-plot")];
  const empty = drawn.filter((plot) => !plot.querySelector(".main-svg .plot, .main-svg .cartesianlayer path"));
  const seen = {
    noted: noted, charts: drawn.length, empty: empty.map((plot) => plot.id),
    rows: document.querySelectorAll("tbody tr").length, wide: document.documentElement.scrollWidth, window: innerWidth
  };
  const told = document.createElement("pre");
  told.id = "told";
  told.textContent = JSON.stringify(seen);
  document.body.append(told);
}, 1500));
</script>
"""


def seen_in_a_browser(page: Path, width: int) -> dict[str, object]:
    """What a browser window of that width makes of `page`."""
    probed = page.with_name("probed.html")
    probed.write_text(page.read_text().replace("<head>", "<head>" + PROBE, 1))
    command = [
        str(CHROMIUM),
        *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000"),
        *(f"--window-size={width},900", "--dump-dom", probed.as_uri()),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    told = re.search(r'<pre id="told">(.*?)</pre>', ended.stdout)
    assert told is not None, ended.stderr[-2000:]
    seen: dict[str, object] = json.loads(html.unescape(told[1]))
    return seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two replays and two passes, and its reports."""
    counters = {
        "prompt_tokens_local_compute": 7,
        "prompt_tokens_local_cache_hit": 2,
        "prompt_tokens_external_kv_transfer": 5,
        "prefix_cache_hits": 2,
        "external_prefix_cache_hits": 5,
    }
    times = {"sent_ns": 1, "done_ns": 2, "cached_tokens": 64, "external_cached_tokens": 64, "load_ms": 3.0}
    passes = [
        FakePass(arm, [float(ms) for ms in RANDOM.gamma(9, 20, size=150)], name=name, counters=counters, columns=times)
        for arm in ("recompute", "host", "valkey-1", "valkey-4")
        for name in ("first", "replay")
    ]
    run = fake_run(
        passes,
        probe={"prefill_tokens_per_s": 9e3, "kv_bytes_per_token": 4096, "bstar_bytes_per_s": 3.7e7},
        arms={"valkey-1": {"link_bytes_per_s": 1e7, "instances": 1, "rho": 1.1}},
    )
    path = written(run, tmp_path_factory.mktemp("results"))
    write_reports(path, limits_ms={"ttft": 200.0})
    return path


@pytest.mark.parametrize("width", [1280, 500])
def test_the_report(folder: Path, width: int) -> None:
    """Nothing is said on the console, every chart is drawn, and nothing but a table's own frame scrolls sideways."""
    seen = seen_in_a_browser(folder / "report.html", width)
    assert seen["noted"] == []
    assert seen["empty"] == []
    assert seen["charts"] == 9
    assert int(str(seen["rows"])) > 20
    assert int(str(seen["wide"])) <= int(str(seen["window"]))


def test_the_index(folder: Path) -> None:
    """The index has a line a run, and says nothing on the console."""
    seen = seen_in_a_browser(write_index(folder.parents[1]), 500)
    assert seen["noted"] == []
    assert seen["rows"] == 1
