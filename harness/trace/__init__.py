"""Traces: what happened. Reads, checks, transforms and makes them; sends nothing."""

from harness.trace.convert import Conversion, convert
from harness.trace.formats import FORMATS
from harness.trace.make import SHIPPED, MakeSpec, make_trace, sidecar_of
from harness.trace.options import ReadOptions, ReadReport
from harness.trace.peers import PEERS
from harness.trace.read import TraceRows, iter_rows, read_trace
from harness.trace.request import Trace, TraceRequest
from harness.trace.sidecar import Sidecar, read_sidecar, sidecar_path
from harness.trace.write import write_trace

__all__ = [
    "FORMATS",
    "PEERS",
    "SHIPPED",
    "Conversion",
    "MakeSpec",
    "ReadOptions",
    "ReadReport",
    "Sidecar",
    "Trace",
    "TraceRequest",
    "TraceRows",
    "convert",
    "iter_rows",
    "make_trace",
    "read_sidecar",
    "read_trace",
    "sidecar_of",
    "sidecar_path",
    "write_trace",
]
