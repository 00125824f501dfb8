"""What a run tells whoever watches it; the terminal's version is in cli/."""

from typing import Protocol

from harness.records import RequestRecord


class Progress(Protocol):
    """Called while a run goes on. None of it may block: it runs between requests."""

    def say(self, text: str) -> None:
        """One step has begun."""

    def begin(self, arm: str, workload: str, pass_name: str, total: int) -> None:
        """A pass of `total` requests is about to be sent."""

    def done(self, record: RequestRecord) -> None:
        """One of its requests ended."""

    def end(self) -> None:
        """The pass is over."""
