"""What real Valkeys deliver, behind links whose bandwidth is known."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import ConfigError, StackError
from harness.experiment.raw_valkey import CLIENTS, Credentials, sweep
from tests.fakes.valkey_servers import ValkeyServer, free_port, running
from tests.integration.test_link_proxy import link

pytestmark = pytest.mark.integration

LINK_BYTES_PER_S = 20e6
VALUE_BYTES = 1 << 18


def _quiet(_: str) -> None:
    """Nobody listens."""


def test_the_links_bandwidth_is_found_again(tmp_path: Path) -> None:
    """Within 10 % of what each link is set to, or its interval is (a busy machine): 1 and 2 instances, all clients."""
    with running(2, tmp_path) as servers, link(*(s.port for s in servers), bytes_per_s=LINK_BYTES_PER_S) as ports:
        endpoints = [f"127.0.0.1:{port}" for port in ports]
        points = sweep(endpoints, VALUE_BYTES, 0.6, _quiet, Credentials())
        assert {(point.clients, point.instances) for point in points} == {(c, n) for c in CLIENTS for n in (1, 2)}
        for point in points:
            total, found = point.instances * LINK_BYTES_PER_S, point.bytes_per_s
            assert found.high is not None
            assert found.value < 1.1 * total
            assert found.high > 0.9 * total
            each = found.value / point.instances
            assert point.each_bytes_per_s == pytest.approx([each] * point.instances, rel=0.1)
        assert [server.key_count() for server in servers] == [0, 0]


def test_the_command_line_says_it_as_text_and_as_json(tmp_path: Path) -> None:
    """`--raw` needs no engine."""
    with running(1, tmp_path) as servers:
        command = [sys.executable, "-m", "harness.cli", "probe", "--value", "64KiB", "--seconds", "0.1"]
        command += ["--raw", servers[0].endpoint]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        document = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert "1 to 8 clients:" in text
    assert [point["clients"] for point in document["raw"]] == list(CLIENTS)
    assert all(point["bytes_per_s"]["value"] > 0 for point in document["raw"])


def test_a_password_comes_by_the_name_of_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With it values are read; without it the instance refuses, and the error says what to look for."""
    monkeypatch.setenv("KVREPLAY_TEST_PASSWORD", "very-secret")
    with running(1, tmp_path) as servers:
        assert servers[0].ask("CONFIG", "SET", "requirepass", "very-secret") == "+OK"
        entry = Credentials(password_env="KVREPLAY_TEST_PASSWORD")
        assert sweep([servers[0].endpoint], 1 << 16, 0.1, _quiet, entry)[0].bytes_per_s.value > 0
        with pytest.raises(StackError, match="did not store") as error:
            sweep([servers[0].endpoint], 1 << 16, 0.1, _quiet, Credentials())
    assert "--password-env" in error.value.remedy


def test_values_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    """A Valkey that is full stores nothing: said so, never a bandwidth of what was not there."""
    server = ValkeyServer(tmp_path, "--maxmemory", "3000000", "--maxmemory-policy", "noeviction")
    try:
        server.start()
        with pytest.raises(StackError, match="did not store"):
            sweep([server.endpoint], 4 << 20, 0.1, _quiet, Credentials())
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("endpoint", "size", "error", "named"),
    [
        ("nowhere", 1000, ConfigError, "nowhere"),
        ("http://127.0.0.1:6379", 1000, ConfigError, "cannot be used"),
        ("valkey://me:secret@127.0.0.1:6379", 1000, ConfigError, "cannot be used"),
        ("127.0.0.1:6379", 0, ConfigError, "0 bytes"),
    ],
)
def test_endpoints_that_are_none(endpoint: str, size: int, error: type[Exception], named: str) -> None:
    """Refused before anything is sent; a password in an address too."""
    with pytest.raises(error, match=named):
        sweep([endpoint], size, 0.1, _quiet, Credentials())


def test_nobody_answers() -> None:
    """An instance that is not there is named."""
    endpoint = f"127.0.0.1:{free_port()}"
    with pytest.raises(StackError, match="did not store") as error:
        sweep([endpoint], 1000, 0.1, _quiet, Credentials())
    assert endpoint in error.value.where
