"""How fast LMCache's logs are read, in lines a second of one core's time: `python -m tests.benchmark.read_logs LOG...`.

Each log is repeated until it has so many lines, each time on another day and with other request ids, so that nothing
can be remembered from one copy to the next; it is read five times. The best counts: what this code can do where nothing
else runs on the core. The lines that are events are read by themselves too: no log can be worse than that.
"""

import re
import sys
import time
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

from harness.collect import KeyLayout, parse_log

_LINES, _TIMES = 50_000, 5
_LAYOUT = KeyLayout(256, 1, 2**20)
_DAY = re.compile(r"\[\d{4}-\d\d-\d\d ")
_ID = re.compile(r"(cmpl-)(?=\S+-[0-9a-f]{8})")


def _lengthened(lines: Sequence[str]) -> list[str]:
    copies = -(-_LINES // len(lines))
    text = "".join(lines)
    days = [date(2000, 1, 1) + timedelta(days=number) for number in range(copies)]
    parts = [_DAY.sub(f"[{day} ", _ID.sub(rf"\g<1>{number}x", text)) for number, day in enumerate(days)]
    return "".join(parts).splitlines(keepends=True)


def _best_s(lines: Sequence[str]) -> float:
    times = []
    for _ in range(_TIMES):
        began = time.process_time()
        parse_log(lines, arm="a", repeat=0, instance="i", file="f", version="0.5.5", layout=_LAYOUT)
        times.append(time.process_time() - began)
    return min(times)


def main() -> None:
    """Print a line for each log, and one for its events alone."""
    for name in sys.argv[1:]:
        whole = Path(name).read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        log = parse_log(whole, arm="a", repeat=0, instance="i", file="f", may_be_silent=True)
        numbers = sorted({event.line_no for event in log.events})
        for what, lines in (("whole", whole), ("events", [whole[number - 1] for number in numbers])):
            if numbers:
                many = _lengthened(lines)
                rate = len(many) / _best_s(many)
                print(f"{name}, {what} ({len(lines)} lines): {rate:,.0f} lines/s")  # noqa: T201


if __name__ == "__main__":
    main()
