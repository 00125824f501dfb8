"""A run folder's reports, made from its parquet: summary.json, report.md, report.html."""

from pathlib import Path

from harness.analysis import Summary, pictures, summarise, to_json
from harness.report import render_markdown, render_page
from harness.store import open_run
from harness.store.folder import write_atomically, write_json


def write_reports(folder: Path, *, allow_incomplete: bool = False, page: Path | None = None) -> Summary:
    """Write the three reports of the run in `folder` (the page to `page` if given); the summary they show."""
    run = open_run(folder, allow_incomplete=allow_incomplete)
    summary = summarise(run)
    write_json(folder / "summary.json", to_json(summary))
    text = render_markdown(summary)
    html = render_page(summary, pictures(run))
    write_atomically(folder / "report.md", lambda file: file.write(text.encode()))
    write_atomically(page or folder / "report.html", lambda file: file.write(html.encode()))
    return summary
