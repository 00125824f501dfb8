"""When an instance is said to be lost, and to be back."""

import logging
import time

import pytest

from harness.plugins.log import logger
from harness.plugins.outage import Outage


def test_what_was_tried_before_it_answered_is_no_new_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker finds it again; another, which tried before that and pauses since, does not take that back."""
    said: list[str] = []
    monkeypatch.setattr(logger, "handlers", [handler := logging.Handler()])
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    outage, trouble = Outage("v:1"), OSError("refused")
    tried_s = time.monotonic()
    outage.begins(trouble, tried_s)
    outage.begins(trouble, tried_s)
    outage.ends()
    outage.begins(trouble, tried_s)
    assert said == ["Valkey v:1 does not answer, its chunks are misses: refused", "Valkey v:1 answers again"]
    outage.begins(trouble, time.monotonic())
    outage.ends()
    assert len(said) == 4
