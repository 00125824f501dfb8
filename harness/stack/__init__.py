"""The machinery under test: real processes, started in order, proved ready, stopped in reverse."""

from harness.stack.blueprint import Blueprint, Ports, draw
from harness.stack.interpreter import Interpreter
from harness.stack.ports import free_ports
from harness.stack.process import Command, Process
from harness.stack.running import RunningStack, attached, ports_for, started

__all__ = [
    "Blueprint",
    "Command",
    "Interpreter",
    "Ports",
    "Process",
    "RunningStack",
    "attached",
    "draw",
    "free_ports",
    "ports_for",
    "started",
]
