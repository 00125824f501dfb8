"""The client's own error in every display."""

from typing import Any

from harness.analysis import summarise, tell
from harness.analysis.summary import to_json
from harness.report import render_markdown, render_page
from harness.report.client_error import HEADERS, error_rows, selftest_brief, selftest_line
from tests.fakes.runs import FakePass, fake_run

SPREAD = {"p50": 0.14, "p99": 2.3, "max": 4.0, "n": 3000}
ERROR: dict[str, Any] = {
    "client": "httptools",
    "work": "512-200",
    "requests": 3000,
    "failed": 0,
    "rate_per_s": 199.7,
    "cpu_share": 0.31,
    "send_lag_ms": SPREAD | {"p99": 0.5},
    "arrival_error_ms": SPREAD,
    "ttft_error_ms": SPREAD,
    "itl_error_ms": None,
}
SELFTEST: dict[str, Any] = {
    "measured_at": "2026-11-30 02:00 UTC",
    "kvreplay": "0.1 abc",
    "processor": "Xeon, 2 cores",
    "http": "httptools",
    "workers": 1,
    "errors": [ERROR],
    "highest_rate_per_s": 1250.0,
}


def test_a_row_has_every_error() -> None:
    """One cell a header; what was not measured is a dash."""
    (row,) = error_rows([ERROR])
    assert len(row) == len(HEADERS)
    assert row[:6] == ("httptools", "512-200", "3,000", "0", "200", "31%")
    assert row[6:] == ("0.14 / 0.50 / 4.00", *["0.14 / 2.30 / 4.00"] * 2, "-")


def test_every_display_says_it() -> None:
    """Markdown, page, JSON and the terminal's line carry the self-test, or say that there is none."""
    run = fake_run([FakePass("recompute", [100.0] * 9)], selftest=SELFTEST)
    summary = summarise(run, 20)
    assert to_json(summary)["selftest"] == SELFTEST
    for text in (render_markdown(summary, tell(run, summary)), render_page(summary, tell(run, summary))):
        assert "0.14 / 0.50 / 4.00" in text
        assert "held with p99 send lag below 1 ms: 1,250 requests/s" in text
    assert selftest_brief(SELFTEST).endswith("send lag 0.5 ms, TTFT 2.3 ms")


def test_a_client_that_was_never_measured_says_so() -> None:
    """No self-test is told, with the command that makes one, and breaks nothing."""
    run = fake_run([FakePass("recompute", [100.0] * 9)])
    summary = summarise(run, 20)
    text = render_markdown(summary, tell(run, summary))
    assert "not measured on this machine: run" in text
    assert "not measured" in selftest_line(None)
    assert "not measured" in selftest_brief(None)
