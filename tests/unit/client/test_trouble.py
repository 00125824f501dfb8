"""What a connection that was not made means."""

import errno
import ssl

import pytest

from harness.client.trouble import connect_trouble
from harness.records import Outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (OSError(errno.EMFILE, "Too many open files"), Outcome.NOT_SENT),
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"), Outcome.NOT_SENT),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), Outcome.REFUSED),
        (OSError(errno.EHOSTUNREACH, "No route to host"), Outcome.REFUSED),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), Outcome.REFUSED),
        (UnicodeError("label too long"), Outcome.REFUSED),
    ],
)
def test_this_machines_limits_are_not_the_servers_refusal(error: Exception, outcome: Outcome) -> None:
    """A request that this machine could not send is not_sent, one that nobody took is refused; the reason is kept."""
    trouble = connect_trouble(error)
    assert trouble.outcome is outcome
    assert str(error) in trouble.message
