"""report.html."""

import json
import math
import re
from html.parser import HTMLParser
from typing import Any

from harness.analysis import summarise, tell
from harness.records import Run
from harness.report import render_page
from tests.fakes.runs import FakePass, fake_run

SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL)


class Tags(HTMLParser):
    """Notes every tag with its attributes, and the text between."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps the tag."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keeps the text."""
        self.text += data


def page(run: Run) -> str:
    """The page of a run."""
    summary = summarise(run, 20)
    return render_page(summary, tell(run, summary))


RUN = fake_run(
    [
        FakePass("recompute", [100.0, 110.0, None]),
        FakePass("valkey-1", [250.0, 260.0, 270.0]),
        FakePass("recompute", [90.0], workload="ten-docs", name="first"),
    ]
)


def test_is_one_file() -> None:
    """Nothing is loaded from elsewhere, and plotly's script is inside exactly once for several pictures."""
    html = page(RUN)
    read = Tags()
    read.feed(SCRIPT.sub("", html))
    links = [attrs.get("src") or attrs.get("href") for _, attrs in read.tags if {"src", "href"} & attrs.keys()]
    assert all(link and link.startswith("#") for link in links)
    assert not re.findall(r"<script[^>]*\ssrc=", html)
    scripts = [script for script in SCRIPT.findall(html) if len(script) > 1_000_000]
    assert len(scripts) == 1
    assert html.count("Plotly.newPlot(") - scripts[0].count("Plotly.newPlot(") == 4


def test_says_what_the_summary_says() -> None:
    """The verdict comes first; the table and every caveat follow."""
    summary = summarise(RUN, 20)
    read = Tags()
    read.feed(SCRIPT.sub("", page(RUN)))
    text = " ".join(read.text.split())
    assert summary.verdict.sentence in text
    for one in summary.verdict.arms:
        assert one.text in text
    assert text.index(summary.verdict.sentence) < text.index("Caveats")
    for caveat in summary.caveats:
        assert caveat.text in text


def charts(html: str) -> list[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """The data and the layout of each chart of a page."""
    own = [script for script in SCRIPT.findall(html) if "Plotly.newPlot(" in script and len(script) < 1_000_000]
    found, decoder = [], json.JSONDecoder()
    for script in own:
        data, end = decoder.raw_decode(script, script.index("[{"))
        layout, _ = decoder.raw_decode(script, script.index("{", end))
        found.append((data, layout))
    return found


def test_incident_picture() -> None:
    """An arm a chart, with the same axes: due time against TTFT by lookup outcome; hovering tells who it was."""
    run = fake_run([FakePass("recompute", [100.0, 110.0, None]), FakePass("valkey-1", [250.0, 260.0, 270.0])])
    (recompute, axes), (valkey, others) = charts(page(run))[:2]
    assert [trace["name"] for trace in (*recompute, *valkey)] == ["miss", "miss"]
    assert recompute[0]["customdata"] == [[0, 0, 100, 0, ""], [1, 1, 100, 0, ""]]
    assert "seq" in str(recompute[0]["hovertemplate"])
    assert axes["yaxis"] == others["yaxis"]
    assert axes["xaxis"]["range"] == others["xaxis"]["range"]
    assert axes["yaxis"]["type"] == "log"
    low, high = axes["yaxis"]["range"]
    assert low < 2 < math.log10(270) < high
    assert all(layout["shapes"][0]["y0"] == 105.0 for layout in (axes, others))  # recompute's median


def test_every_link_leads_somewhere() -> None:
    """Whatever the page links to is on the page: the verdict's evidence is one click away."""
    read = Tags()
    read.feed(SCRIPT.sub("", page(RUN)))
    ids = {attrs["id"] for _, attrs in read.tags if "id" in attrs}
    links = [attrs["href"] for tag, attrs in read.tags if tag == "a"]
    assert "#arm-valkey-1" in links
    assert {str(link).removeprefix("#") for link in links} <= ids


def test_evidence_is_folded_away() -> None:
    """The log's lines stand below their caveat, not in it."""
    fault = {
        "kind": "double_free",
        "text": "host: freed twice",
        "arm": "host",
        "evidence": ["vllm.log:1: <Double free>"],
    }
    html = page(fake_run([FakePass("host", [5.0])], caveats=[fault]))
    assert "<details><summary>The first lines</summary>\n<pre>vllm.log:1: &lt;Double free&gt;" in html


def test_sections_without_data_are_absent() -> None:
    """What nobody measured has no heading: no queue, no parts of TTFT, no bandwidth, no capacity."""
    html = page(RUN)
    for section in ("queues", "parts", "bandwidth", "cost", "capacity"):
        assert f'id="{section}"' not in html
        assert f'href="#{section}"' not in html


def test_sections_with_data_are_there() -> None:
    """Columns and run.json keys that another room fills are drawn as soon as they hold something."""
    run = fake_run(
        [
            FakePass("recompute", [100.0] * 9),
            FakePass("valkey-1", [50.0] * 9, columns={"load_ms": 7.0, "unexplained_ms": 1.0, "cached_tokens": 64}),
        ],
        probe={"prefill_tokens_per_s": 9200.0, "kv_bytes_per_token": 4096, "bstar_bytes_per_s": 37.7e6},
        arms={"valkey-1": {"link_bytes_per_s": 12.8e6, "instances": 1, "rho": 1.13}},
        capacity_curves={"LRU": [[1000, 0.1], [2000, 0.4]]},
    )
    html = page(run)
    for section in ("parts", "cost", "capacity"):
        assert f'id="{section}"' in html


def test_no_number_that_is_none() -> None:
    """NaN and infinity never reach the page, whatever a run holds: not in the text, and not in a chart."""
    run = fake_run(
        [
            FakePass("recompute", [0.0, 0.0, 0.0], columns={"tpot_ms": math.nan, "e2el_ms": math.inf}),
            FakePass("valkey-1", [math.nan, math.inf, 5.0], columns={"load_ms": math.inf}),
        ]
    )
    html = page(run)
    read = Tags()
    read.feed(SCRIPT.sub("", html))
    assert not re.findall(r"\b(nan|inf|infinity)\b", read.text.lower())
    for script in SCRIPT.findall(html):
        if len(script) < 1_000_000:
            assert not re.findall(r"\b(NaN|Infinity)\b", script)


def test_values_are_text() -> None:
    """What a server or a log said is shown as it is, not run as markup."""
    known = {"kind": "log", "text": "<script>alert(1)</script>", "remedy": ""}
    html = page(fake_run([], caveats=[known]))
    assert "<script>alert(1)</script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_empty_run() -> None:
    """A run without one measured request has a page without pictures, and says so."""
    html = page(fake_run([]))
    assert "No measured pass" in html
    assert "Plotly" not in html
