"""Sends the load: planned requests go out on time, and each comes back as one record."""

from harness.client.aiohttp_transport import AiohttpTransport
from harness.client.clock import Clock, MonotonicClock
from harness.client.replay import replay
from harness.client.request import one_request
from harness.client.timeouts import Timeouts
from harness.client.transport import Exchange, Transport, TransportTrouble

__all__ = [
    "AiohttpTransport",
    "Clock",
    "Exchange",
    "MonotonicClock",
    "Timeouts",
    "Transport",
    "TransportTrouble",
    "one_request",
    "replay",
]
