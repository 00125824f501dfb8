"""A run folder's reports, made from its parquet: summary.json, report.md, report.html."""

from collections.abc import Mapping
from pathlib import Path

from harness.analysis import Slo, Summary, summarise, tell, to_json
from harness.report import render_markdown, render_page
from harness.store import open_run
from harness.store.folder import write_atomically, write_json


def write_reports(
    folder: Path,
    *,
    allow_incomplete: bool = False,
    page: Path | None = None,
    limits_ms: Mapping[str, float] | None = None,
) -> Summary:
    """Write the three reports of the run in `folder` (the page to `page` if given); the summary they show.

    `limits_ms` are the limits (by ttft, ttft_due, tpot, e2el) under which goodput is reported; none, no goodput.
    """
    run = open_run(folder, allow_incomplete=allow_incomplete)
    summary = summarise(run, slos=[Slo(metric, limit_ms) for metric, limit_ms in (limits_ms or {}).items()])
    write_json(folder / "summary.json", to_json(summary))
    story = tell(run, summary)
    text, html = render_markdown(summary, story), render_page(summary, story)
    write_atomically(folder / "report.md", lambda file: file.write(text.encode()))
    write_atomically(page or folder / "report.html", lambda file: file.write(html.encode()))
    return summary
