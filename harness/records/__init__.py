"""What was seen: the vocabulary that the client, the collectors, the simulators, the store and the analysis share."""

from harness.records.events import LoadEvent, ServerSample
from harness.records.passes import PassCounters, PassRecord
from harness.records.request import Cell, Outcome, RequestRecord
from harness.records.run import Caveat, Run
from harness.records.schema import SCHEMA_VERSION, SCHEMAS

__all__ = [
    "SCHEMAS",
    "SCHEMA_VERSION",
    "Caveat",
    "Cell",
    "LoadEvent",
    "Outcome",
    "PassCounters",
    "PassRecord",
    "RequestRecord",
    "Run",
    "ServerSample",
]
