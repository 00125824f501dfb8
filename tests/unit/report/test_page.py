"""report.html."""

import json
import re
from html.parser import HTMLParser

from harness.analysis import pictures, summarise
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
    return render_page(summarise(run, 20), pictures(run))


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
    assert not [tag for tag, attrs in read.tags if {"src", "href"} & attrs.keys()]
    assert not re.findall(r"<script[^>]*\ssrc=", html)
    scripts = [script for script in SCRIPT.findall(html) if len(script) > 1_000_000]
    assert len(scripts) == 1
    assert html.count("Plotly.newPlot(") - scripts[0].count("Plotly.newPlot(") == 3


def test_says_what_the_summary_says() -> None:
    """The verdict comes first; the table and every caveat follow."""
    summary = summarise(RUN, 20)
    read = Tags()
    read.feed(SCRIPT.sub("", page(RUN)))
    text = " ".join(read.text.split())
    assert summary.verdict.sentence in text
    assert text.index(summary.verdict.sentence) < text.index("Caveats")
    for caveat in summary.caveats:
        assert caveat.text in text


def test_incident_picture() -> None:
    """A trace arm by arm: due time against TTFT on a log axis; hovering tells seq and cached tokens."""
    html = SCRIPT.findall(page(RUN))
    incident = next(script for script in html if "TTFT of each request" in script and len(script) < 1_000_000)
    data = json.JSONDecoder().raw_decode(incident[incident.index("[{") :])[0]
    assert [trace["name"] for trace in data] == ["recompute", "valkey-1"]
    assert data[0]["customdata"] == [[0, 0], [1, 0]]
    assert "seq" in data[0]["hovertemplate"]
    assert data[0]["marker"]["color"] != data[1]["marker"]["color"]
    assert data[0]["marker"]["symbol"] != data[1]["marker"]["symbol"]
    assert '"type":"log"' in incident


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
