"""How fast LMCache's logs are read, in lines a second of one core: `python -m tests.benchmark.read_logs LOG...`.

Each log is read 200 times; the best and the median count (the best is what this code can do where nothing else runs on
the core). Its lines that are events are read by themselves too: no log can be worse than that.
"""

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.collect import KeyLayout, parse_log

_TIMES = 200
_LAYOUT = KeyLayout(256, 1, 2**20)


def _seconds(lines: Sequence[str]) -> list[float]:
    times = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        parse_log(lines, arm="a", repeat=0, instance="i", file="f", version="0.5.5", layout=_LAYOUT)
        times.append(time.perf_counter() - began)
    return times


def main() -> None:
    """Print a line for each log, and one for its events alone."""
    for name in sys.argv[1:]:
        whole = Path(name).read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        numbers = {event.line_no for event in parse_log(whole, arm="a", repeat=0, instance="i", file="f").events}
        for what, lines in (("whole", whole), ("events", [whole[number - 1] for number in sorted(numbers)])):
            times = _seconds(lines)
            best, median = len(lines) / min(times), len(lines) / statistics.median(times)
            print(f"{Path(name).name}, {what} ({len(lines)} lines): {best:,.0f} lines/s, median {median:,.0f}")  # noqa: T201


if __name__ == "__main__":
    main()
