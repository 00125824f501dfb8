"""Where an instance answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plugins.address import Address, Entry, entry_from, parse_address

HOSTS = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True)
PORTS = st.integers(1, 65535)


@given(HOSTS, PORTS, st.sampled_from(["", "valkey://", "redis://", "resp://"]), st.sampled_from(["", "/"]))
def test_plain_addresses_are_host_and_port(host: str, port: int, scheme: str, slash: str) -> None:
    """Every plain form names the same instance."""
    assert parse_address(f"{scheme}{host}:{port}{slash}") == Address(f"{host}:{port}", host, port)


@given(HOSTS, PORTS, st.sampled_from(["valkeys", "rediss", "resps"]))
def test_a_scheme_that_ends_in_s_is_tls(host: str, port: int, scheme: str) -> None:
    """The TLS schemes differ in nothing but TLS (`redis` is not one of them)."""
    assert parse_address(f"{scheme}://{host}:{port}") == Address(f"{host}:{port}", host, port, tls=True)


def test_sockets_and_ipv6() -> None:
    """A unix socket is its path; an IPv6 address stands in brackets, which are not part of the host."""
    assert parse_address("unix:///run/valkey/0.sock") == Address("/run/valkey/0.sock", path="/run/valkey/0.sock")
    assert parse_address("[::1]:6379") == Address("::1:6379", "::1", 6379)


@pytest.mark.parametrize(
    "text",
    ["", "host", ":6379", "h:0", "h:65536", "h:port", "http://h:1", "user:secret@h:1", "unix://relative", "h:1/2"],
)
def test_anything_else_is_refused(text: str) -> None:
    """What is not an address is a ValueError that quotes it, a password in it included."""
    with pytest.raises(ValueError, match="is not host:port"):
        parse_address(text)


def test_credentials_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables hold them, and no repr shows the password."""
    monkeypatch.setenv("KVREPLAY_TEST_USER", "reader")
    monkeypatch.setenv("KVREPLAY_TEST_PASSWORD", "hunter2")
    entry = entry_from("KVREPLAY_TEST_USER", "KVREPLAY_TEST_PASSWORD", None)
    assert (entry.username, entry.password) == ("reader", "hunter2")
    assert "hunter2" not in repr(entry)
    assert entry_from(None, None, None).password == Entry().password == ""
