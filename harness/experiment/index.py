"""index.html of a folder of run folders."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.analysis.runs import RunLine, run_line
from harness.errors import HarnessError, RunFolderError
from harness.report import render_index
from harness.store.folder import read_meta, write_atomically

_NAME = "index.html"


def write_index(results: Path) -> Path:
    """Write index.html of all run folders below `results`, however they ended; its path.

    A folder that cannot be read has a line that says why. Raises RunFolderError if there is no such folder.
    """
    if not results.is_dir():
        raise RunFolderError("there is no such folder", where=str(results), remedy="give the folder that runs went to")
    text = render_index(list(_lines(results)))
    write_atomically(results / _NAME, lambda file: file.write(text.encode()))
    return results / _NAME


def _lines(results: Path) -> Iterator[RunLine]:
    for path in sorted(results.glob("*/*/run.json")):
        folder = path.parent
        name = str(folder.relative_to(results))
        try:
            summary, gate = (_document(folder / file) for file in ("summary.json", "gate.json"))
            yield run_line(name, read_meta(folder), summary, gate, has_report=(folder / "report.html").exists())
        except (HarnessError, ValueError, KeyError, TypeError, AttributeError) as error:
            what = (
                error.what if isinstance(error, HarnessError) else f"summary.json or gate.json cannot be read: {error}"
            )
            yield RunLine(name, folder.parent.name, folder.name.partition("-")[0], "unreadable", trouble=what)


def _document(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
