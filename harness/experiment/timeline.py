"""An arm's timeline, out of a run folder."""

from pathlib import Path

from harness.analysis.timeline import Timeline, timeline, to_json
from harness.store import open_run

__all__ = ["Timeline", "read_timeline", "to_json"]


def read_timeline(folder: Path, arm: str, *, window_s: float | None, allow_incomplete: bool) -> Timeline:
    """The timeline of `arm` of the run in `folder`. Raises RunFolderError."""
    return timeline(open_run(folder, allow_incomplete=allow_incomplete), arm, window_s)
