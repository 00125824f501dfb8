"""The store: records in, a run folder out, and a Run back in."""

from harness.store.consolidate import consolidate, recover
from harness.store.folder import RunFolder, Status
from harness.store.journal import Journal
from harness.store.predictions import write_predictions
from harness.store.read import open_run

__all__ = ["Journal", "RunFolder", "Status", "consolidate", "open_run", "recover", "write_predictions"]
