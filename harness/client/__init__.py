"""Sends the load: planned requests go out on time, and each comes back as one record."""

from harness.client.clock import Clock, MonotonicClock
from harness.client.connect import connected
from harness.client.open_files import raise_open_files
from harness.client.replay import replay
from harness.client.request import Carriage
from harness.client.route import Route
from harness.client.target import Endpoint, Http, Target, trusting
from harness.client.timeouts import Timeouts
from harness.client.transport import Exchange, Transport, TransportTrouble
from harness.client.workers import replay_by_workers, workers_for

__all__ = [
    "Carriage",
    "Clock",
    "Endpoint",
    "Exchange",
    "Http",
    "MonotonicClock",
    "Route",
    "Target",
    "Timeouts",
    "Transport",
    "TransportTrouble",
    "connected",
    "raise_open_files",
    "replay",
    "replay_by_workers",
    "trusting",
    "workers_for",
]
