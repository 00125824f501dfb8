"""A run whose process is killed in the middle of writing."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness.errors import RunFolderError
from harness.store import RunFolder, open_run, recover

pytestmark = pytest.mark.integration

WRITER = textwrap.dedent(
    """
    import itertools, sys
    from pathlib import Path
    from harness.records import Cell, Outcome, RequestRecord
    from harness.store import Journal

    cell = Cell("r1", "lab", "valkey-1", "docs", "first", 0, "a1", 0, 0)
    journal = Journal(Path(sys.argv[1]), "r1", rows_per_batch=64)
    for seq in itertools.count():
        journal.append(RequestRecord(cell, seq, seq, "s", 8, 4, due_ns=seq, outcome=Outcome.OK, sent_ns=seq))
        if seq % 10 == 9:
            journal.flush()
            print(seq + 1, flush=True)
    """
)


def test_a_killed_run_keeps_every_row_it_had_flushed(tmp_path: Path) -> None:
    """SIGKILL at any moment loses at most what was not flushed: the rows come back in order, and the run is partial."""
    folder = RunFolder.create(tmp_path, "lab", "r1", "20261129T201500Z").path
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        flushed = 0
        for line in writer.stdout:
            flushed = int(line)
            if flushed >= 100:
                break
        with pytest.raises(RunFolderError, match="still writing"):
            recover(folder)
        writer.send_signal(signal.SIGKILL)
        flushed = max([flushed, *(int(line) for line in writer.stdout.read().splitlines())])
    with pytest.raises(RunFolderError, match="'running'"):
        open_run(folder)
    assert open_run(folder, allow_incomplete=True).requests.num_rows >= flushed
    rows = recover(folder)["requests"]
    run = open_run(folder, allow_incomplete=True)
    assert flushed <= rows <= flushed + 10
    assert run.requests["seq"].to_pylist() == list(range(rows))
    assert run.meta["status"] == "partial"
