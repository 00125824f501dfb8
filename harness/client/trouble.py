"""What it means for a request that no connection could be made."""

import errno
import ssl

from harness.client.transport import TransportTrouble
from harness.records import Outcome

_OUR_OWN_LIMITS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM}
)
"""Errors of connect() that say nothing about the server: this machine ran out of something, or forbids it."""


def connect_trouble(error: Exception) -> TransportTrouble:
    """The outcome of a request whose connection failed: not_sent where this machine is why, else refused."""
    by_tls = isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError)  # their errno is OpenSSL's
    ours = not by_tls and isinstance(error, OSError) and error.errno in _OUR_OWN_LIMITS
    return TransportTrouble(Outcome.NOT_SENT if ours else Outcome.REFUSED, f"{type(error).__name__}: {error}")
