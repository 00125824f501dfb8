"""Which of several servers a request goes to: a function of the request alone, the same in every process."""

import hashlib
from enum import StrEnum

import numpy as np

from harness.schedule import PlannedRequest

PREFIX_TOKENS = 256
"""Requests that share this many leading tokens (LMCache's chunk) go to the same server under `prefix`."""


class Route(StrEnum):
    """In turn; all turns of a session to one server; all prompts with the same beginning to one server."""

    ROUND_ROBIN = "round-robin"
    SESSION = "session"
    PREFIX = "prefix"


def server_of(request: PlannedRequest, route: Route, servers: int) -> int:
    """The index (0..servers-1) of the server for `request`. A request without a session is a session of its own."""
    match route:
        case Route.ROUND_ROBIN:
            return request.seq % servers
        case Route.SESSION:
            return _spread(request.session.encode() or b"%d" % request.seq, servers)
        case Route.PREFIX:
            return _spread(np.ascontiguousarray(request.tokens[:PREFIX_TOKENS], dtype="<u4").tobytes(), servers)


def _spread(key: bytes, servers: int) -> int:
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") % servers
