"""A run gated: against another run, or against the nights before it; and the history that nights are kept in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.analysis import METRICS, Gate, Ruling, gate_on_baseline, gate_on_history, history_lines, summarise
from harness.analysis.gate import unsteady
from harness.errors import IncomparableError
from harness.store import open_run
from harness.store.folder import write_atomically
from harness.store.history import append_history, read_history

HISTORY = "history.parquet"
"""The name of the history, in the folder that run folders go to."""
EXIT_CODES = {Ruling.PASSED: 0, Ruling.REGRESSED: 3, Ruling.NOISY: 4}
"""contract.md."""


def gate_run(run: Path, baseline: Path, limit: float, metric: str, allow: Sequence[str]) -> Gate:
    """`run` beside `baseline`. Raises IncomparableError where they are not the same measurement."""
    if metric not in METRICS:
        raise IncomparableError(f"unknown metric {metric!r}", where="--metric", remedy=f"one of {', '.join(METRICS)}")
    return gate_on_baseline(open_run(run), open_run(baseline), limit, metric, allow)


def gate_nights(run: Path, history: Path, limit: float, nights: int, allow: Sequence[str], *, keep: bool) -> Gate:
    """`run` beside the last `nights` of `history`; with `keep` it is added to the history, however it is ruled."""
    opened = open_run(run)
    summary = summarise(opened)
    lines = history_lines(opened, summary)
    gate = gate_on_history(lines, read_history(history), limit, nights, allow, unsteady(summary.scoped_caveats))
    if keep:
        append_history(history, lines)
    return gate


def gate_json(gate: Gate) -> dict[str, Any]:
    """What `kvreplay gate --json` prints."""
    return {
        "run": gate.run,
        "against": gate.against,
        "limit": gate.limit,
        "ruling": gate.ruling.value,
        "exit_code": EXIT_CODES[gate.ruling],
        "notes": list(gate.notes),
        "checks": [
            {
                "by": dict(check.by),
                "name": check.name,
                "ruling": check.ruling.value,
                "text": check.text,
                "ratio": None if check.ratio is None else check.ratio.value,
                "low": None if check.ratio is None else check.ratio.low,
                "high": None if check.ratio is None else check.ratio.high,
            }
            for check in gate.checks
        ],
    }


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, whole or not at all, its folder made if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: file.write(text.encode()))
