"""The config door: YAML in, a frozen Experiment out."""

from harness.config.experiment import (
    Arm,
    Attach,
    Client,
    Engine,
    Experiment,
    Link,
    LMCache,
    Passes,
    TraceReplay,
    Valkey,
    Workload,
)
from harness.config.load import load_experiment
from harness.config.units import Bandwidth

__all__ = [
    "Arm",
    "Attach",
    "Bandwidth",
    "Client",
    "Engine",
    "Experiment",
    "LMCache",
    "Link",
    "Passes",
    "TraceReplay",
    "Valkey",
    "Workload",
    "load_experiment",
]
