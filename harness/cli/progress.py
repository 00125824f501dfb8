"""What a run shows while it goes on: bars on a terminal, nothing elsewhere but the steps of the run on stderr."""

import statistics
import sys
import time
from collections import deque
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from harness.records import Outcome, RequestRecord

_LATEST = 50  # requests in the running median


class LiveProgress:
    """For a terminal: the step that runs now, and a bar with the running median TTFT for each pass."""

    def __init__(self, console: Console) -> None:
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[ttft]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._step: TaskID | None = None
        self._pass: TaskID | None = None
        self._ttft_ms: deque[float] = deque(maxlen=_LATEST)
        self._failed = 0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_step()
        self._bars.stop()

    def say(self, text: str) -> None:
        """Show `text` as the step that has begun; the one before is over."""
        self._end_step()
        self._step = self._bars.add_task(text, total=None, ttft="")

    def begin(self, arm: str, workload: str, pass_name: str, total: int) -> None:
        """Show a bar for the pass."""
        self._end_step()
        self._ttft_ms.clear()
        self._failed = 0
        self._pass = self._bars.add_task(f"{arm} · {workload} · {pass_name}", total=total, ttft="")

    def done(self, record: RequestRecord) -> None:
        """Move the bar, renew the running median."""
        if record.outcome is not Outcome.OK:
            self._failed += 1
        elif record.first_token_ns is not None and record.sent_ns is not None:
            self._ttft_ms.append((record.first_token_ns - record.sent_ns) / 1e6)
        if self._pass is not None:
            median = f"ttft {statistics.median(self._ttft_ms):,.0f} ms" if self._ttft_ms else ""
            failed = f"  {self._failed} failed" if self._failed else ""
            self._bars.update(self._pass, advance=1, ttft=median + failed)

    def end(self) -> None:
        """Leave the bar where it is."""
        if self._pass is not None:
            self._bars.stop_task(self._pass)
            self._pass = None

    def _end_step(self) -> None:
        """A step's line goes when the next thing begins: passes stay, so that the screen tells the whole run."""
        if self._step is not None:
            self._bars.remove_task(self._step)
            self._step = None


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
