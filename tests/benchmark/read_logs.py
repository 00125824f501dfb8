"""How fast LMCache's logs are read, in lines a second of one core: `python tests/benchmark/read_logs.py LOG...`.

Each log is repeated to about 200,000 lines and read five times; the median counts. Lines of the same log without what
other programs wrote are read too: that is the worst that a log can be, since every line costs an event.
"""

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.collect import KeyLayout, parse_log

_LINES = 200_000
_TIMES = 5


def _seconds(lines: Sequence[str]) -> tuple[float, int]:
    times, events = [], 0
    for _ in range(_TIMES):
        began = time.process_time()
        log = parse_log(
            lines, arm="a", repeat=0, instance="i", file="f", version="0.5.5", layout=KeyLayout(256, 1, 2**20)
        )
        times.append(time.process_time() - began)
        events = len(log.events)
    return statistics.median(times), events


def main() -> None:
    """Print a line for each log, and one for its events alone."""
    for name in sys.argv[1:]:
        whole = Path(name).read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        numbers = {e.line_no for e in parse_log(whole, arm="a", repeat=0, instance="i", file="f").events}
        for what, lines in (("whole", whole), ("events", [whole[number - 1] for number in sorted(numbers)])):
            repeated = lines * (_LINES // len(lines) + 1)
            seconds, events = _seconds(repeated)
            share = events / len(repeated)
            print(f"{Path(name).name}, {what}: {len(repeated) / seconds:,.0f} lines/s ({share:.0%} of them events)")  # noqa: T201 - a script


if __name__ == "__main__":
    main()
