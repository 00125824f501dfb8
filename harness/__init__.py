"""kvreplay: replay request traces against live vLLM + LMCache + Valkey, and say whether a remote KV cache pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from harness.analysis.frames import Frames

__version__ = "0.1.0"


def load_run(path: str | Path, *, allow_incomplete: bool = False) -> Frames:
    """The run folder at `path` as pandas frames (`requests`, `loads`, `samples`, `passes`) with run.json as `meta`.

    Columns are those of docs/method.md and the contract. Raises RunFolderError if the folder is missing, broken, or of
    another format version, and if the run did not end well, unless `allow_incomplete`.
    """
    from pathlib import Path  # noqa: PLC0415 - a command that loads no run must not wait for pandas

    from harness.analysis.frames import frames_of  # noqa: PLC0415
    from harness.store import open_run  # noqa: PLC0415

    return frames_of(open_run(Path(path), allow_incomplete=allow_incomplete))
