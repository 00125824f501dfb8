"""The config door: YAML in, a frozen Experiment out."""

from harness.config.client import Client
from harness.config.experiment import Arm, Attach, Engine, Experiment, LMCache
from harness.config.load import experiment_from, load_experiment
from harness.config.simulation import Published, SimulatedArm, Simulation
from harness.config.units import Bandwidth
from harness.config.valkey import Link, Valkey
from harness.config.workload import LengthScale, Passes, TraceReplay, Transform, Window, Workload

__all__ = [
    "Arm",
    "Attach",
    "Bandwidth",
    "Client",
    "Engine",
    "Experiment",
    "LMCache",
    "LengthScale",
    "Link",
    "Passes",
    "Published",
    "SimulatedArm",
    "Simulation",
    "TraceReplay",
    "Transform",
    "Valkey",
    "Window",
    "Workload",
    "experiment_from",
    "load_experiment",
]
