"""What a run shows while it goes on: bars on a terminal, nothing elsewhere but the steps of the run on stderr."""

import statistics
import sys
import time
from collections import deque
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from harness.records import Outcome, RequestRecord

_LATEST = 50  # requests in the running median


class LiveProgress:
    """For a terminal: what runs now, with a bar and the running median TTFT while a pass is sent; passes stay as lines.

    One line is drawn anew, every other second: drawing takes time from the cores that the servers under test need.
    """

    def __init__(self, console: Console) -> None:
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}"),
            TextColumn("{task.fields[ttft]}"),
            TimeElapsedColumn(),
            console=console,
            refresh_per_second=0.5,
            transient=True,
        )
        self._line: TaskID | None = None
        self._pass = ""
        self._total = self._ended = self._failed = 0
        self._ttft_ms: deque[float] = deque(maxlen=_LATEST)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._bars.stop()

    def say(self, text: str) -> None:
        """Show `text` as the step that has begun; the one before is over."""
        self._show(text, total=1, count="")

    def begin(self, arm: str, workload: str, pass_name: str, total: int) -> None:
        """Show a bar for the pass."""
        self._ttft_ms.clear()
        self._ended = self._failed = 0
        self._pass, self._total = f"{arm} · {workload} · {pass_name}", total
        self._show(self._pass, total=total, count=self._count())

    def done(self, record: RequestRecord) -> None:
        """Move the bar, renew the running median."""
        self._ended += 1
        if record.outcome is not Outcome.OK:
            self._failed += 1
        elif record.first_token_ns is not None and record.sent_ns is not None:
            self._ttft_ms.append((record.first_token_ns - record.sent_ns) / 1e6)
        if self._line is not None:
            self._bars.update(self._line, completed=self._ended, count=self._count(), ttft=self._median())

    def end(self) -> None:
        """What the pass came to, as a line that stays."""
        if self._pass:
            self._bars.console.print(f"{self._pass}  {self._count()}  {self._median()}", highlight=False)
        self._pass = ""

    def _show(self, text: str, *, total: int, count: str) -> None:
        if self._line is not None:
            self._bars.remove_task(self._line)
        self._line = self._bars.add_task(text, total=total, count=count, ttft="")

    def _count(self) -> str:
        return f"{self._ended}/{self._total}" + (f", {self._failed} failed" if self._failed else "")

    def _median(self) -> str:
        return f"ttft {statistics.median(self._ttft_ms):,.0f} ms" if self._ttft_ms else ""


class PlainProgress:
    """For a log: one line a step, with the seconds since the start; no bars."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._failed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, text: str) -> None:
        """One line."""
        print(f"{time.monotonic() - self._start_s:7.1f} s  {text}", file=sys.stderr, flush=True)

    def begin(self, arm: str, workload: str, pass_name: str, total: int) -> None:
        """One line."""
        self._failed = 0
        self.say(f"{arm} · {workload} · {pass_name}: {total} requests")

    def done(self, record: RequestRecord) -> None:
        """Only counts failures."""
        self._failed += record.outcome is not Outcome.OK

    def end(self) -> None:
        """One line if anything failed."""
        if self._failed:
            self.say(f"  {self._failed} failed")
