"""The pages in a real browser: nothing on the console, every chart drawn, tables right, in any width, theme, and print.

Playwright drives Debian's chromium; where either is missing these tests are skipped.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.experiment.index import write_index
from harness.experiment.report import write_reports
from harness.report.rows import HEADERS, arms_table
from tests.fakes.folders import written
from tests.fakes.runs import FakePass, fake_run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = [pytest.mark.integration, pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")]

RANDOM = np.random.default_rng(5)
ARMS = ("recompute", "host", "valkey-1", "valkey-4")
DESKTOP, PHONE = 1280, 390
UNDRAWN = """() => [...document.querySelectorAll(".js-plotly-plot")]
  .filter((plot) => !plot.querySelector(".main-svg .plot, .main-svg .cartesianlayer path")).map((plot) => plot.id)"""
ROWS = """() => [...document.querySelectorAll("#arms ~ div table")][0].innerText"""
BRIGHTNESS = """() => {
  const bright = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 765;
  const style = getComputedStyle(document.body), text = document.querySelector(".js-plotly-plot .gtitle");
  return [style.backgroundColor, style.color, getComputedStyle(text).fill].map(bright);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The machine's chromium, without a window."""
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


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
    times = {
        "sent_ns": 1,
        "done_ns": 2,
        "cached_tokens": 64,
        "external_cached_tokens": 64,
        "load_ms": 3.0,
        "unexplained_ms": 1.0,
    }
    passes = [
        FakePass(arm, [float(ms) for ms in RANDOM.gamma(9, 20, size=150)], name=name, counters=counters, columns=times)
        for arm in ARMS
        for name in ("first", "replay")
    ]
    fault = {"kind": "double_free", "text": "valkey-1: freed twice", "arm": "valkey-1", "evidence": ["log:1: Double"]}
    run = fake_run(
        passes,
        probe={"prefill_tokens_per_s": 9e3, "kv_bytes_per_token": 4096, "bstar_bytes_per_s": 3.7e7},
        arms={"valkey-1": {"link_bytes_per_s": 1e7, "instances": 1, "rho": 1.1}},
        caveats=[fault],
    )
    path = written(run, tmp_path_factory.mktemp("results"))
    write_reports(path, limits_ms={"ttft": 200.0})
    return path


class Seen:
    """A page that is open, and whatever it complained of or asked for."""

    def __init__(self, browser: Any, path: Path, width: int, **context: Any) -> None:
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, **context)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda line: self.complaints.append(line.text) if line.type != "log" else None)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        wide: int = self.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        return wide


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_report(browser: Any, folder: Path, width: int) -> None:
    """Nothing is said on the console nor asked of a network, every chart is drawn, only tables scroll sideways."""
    seen = Seen(browser, folder / "report.html", width)
    assert seen.complaints == []
    assert seen.asked == [(folder / "report.html").as_uri()]
    assert seen.page.evaluate(UNDRAWN) == []
    charts = {"requests": 4, "distributions": 2, "parts": 2, "sources": 1, "cost": 1}
    assert seen.page.locator(".js-plotly-plot").count() == sum(charts.values())
    assert seen.overflow() <= 0
    seen.page.close()


def test_the_arms_table_is_right(browser: Any, folder: Path) -> None:
    """The table below the verdict has the judged pass alone, cell by cell what the summary has."""
    seen = Seen(browser, folder / "report.html", DESKTOP)
    table = arms_table(write_reports(folder, limits_ms={"ttft": 200.0}), intervals=True).of("trace/replay")
    shown = " ".join(seen.page.evaluate(ROWS).split())
    expected = [*HEADERS[1:], "trace/replay", *(cell for row in table.rows for cell in row.cells[1:])]
    assert [row.cells[1] for row in table.rows] == list(ARMS)
    assert shown == " ".join(expected)
    seen.page.close()


def test_evidence_is_one_click_away(browser: Any, folder: Path) -> None:
    """Every link leads to a part of the page, those of the verdict to its arms' rows; a log's lines open on a click."""
    page = Seen(browser, folder / "report.html", PHONE).page
    assert (
        page.evaluate(
            """() => [...document.querySelectorAll("a")].filter((a) => !document.getElementById(a.hash.slice(1)))
        .map((a) => a.href)"""
        )
        == []
    )
    page.click(".verdict a[href='#arm-valkey-4']")
    assert page.locator("#arm-valkey-4").bounding_box()["y"] < 900
    assert not page.get_by_text("log:1: Double").is_visible()
    page.get_by_text("The first lines").click()
    assert page.get_by_text("log:1: Double").is_visible()
    page.close()


def test_hovering_shows_the_request(browser: Any, folder: Path) -> None:
    """A point of the incident picture tells which request it is, what was cached, and where its time went."""
    page = Seen(browser, folder / "report.html", DESKTOP).page
    page.locator("#incident ~ div .js-plotly-plot").first.locator(".points path").nth(70).hover(force=True)
    told = page.locator(".hoverlayer .hovertext").first.text_content()
    assert "TTFT" in told
    assert "cached 64" in told
    assert "load 3 ms" in told
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_can_be_read(browser: Any, folder: Path, scheme: str) -> None:
    """Page, text and the text in charts follow the reader's theme, far apart in brightness."""
    seen = Seen(browser, folder / "report.html", DESKTOP, color_scheme=scheme)
    ground, text, drawn = seen.page.evaluate(BRIGHTNESS)
    assert (ground < 0.2) == (scheme == "dark")
    assert min(abs(ground - text), abs(ground - drawn)) > 0.6
    seen.page.close()


def test_print_shows_all(browser: Any, folder: Path) -> None:
    """On paper everything is unfolded, dark text on white, even for whoever reads in the dark."""
    seen = Seen(browser, folder / "report.html", DESKTOP, color_scheme="dark")
    folds = seen.page.locator("details")
    assert folds.count() > 3
    seen.page.emulate_media(media="print")
    seen.page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator("details[open]").count() == folds.count()
    ground, text, drawn = seen.page.evaluate(BRIGHTNESS)
    assert ground > 0.9
    assert max(text, drawn) < 0.3
    seen.page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert seen.page.locator("details[open]").count() == 0
    assert seen.complaints == []
    seen.page.close()


def test_the_index(browser: Any, folder: Path) -> None:
    """The index has a line a run, and says nothing on the console."""
    seen = Seen(browser, write_index(folder.parents[1]), PHONE)
    assert seen.complaints == []
    assert seen.page.locator("tbody tr").count() == 1
    assert seen.overflow() <= 0
    seen.page.close()
