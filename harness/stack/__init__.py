"""The machinery under test: real processes, started in order, proved ready, stopped in reverse."""

from harness.stack.blueprint import Blueprint, Ports, draw
from harness.stack.diagnose import last_line
from harness.stack.interpreter import Interpreter
from harness.stack.ports import free_ports
from harness.stack.process import Command, Process
from harness.stack.running import EngineAddress, RunningStack, attached, ports_for, started

__all__ = [
    "Blueprint",
    "Command",
    "EngineAddress",
    "Interpreter",
    "Ports",
    "Process",
    "RunningStack",
    "attached",
    "draw",
    "free_ports",
    "last_line",
    "ports_for",
    "started",
]
