"""Rate-limited links, as the program that the stack starts."""

import contextlib
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.plugins.sharded_valkey import ShardedValkey
from tests.fakes.valkey_servers import free_port, running

pytestmark = pytest.mark.integration

REPOSITORY = Path(__file__).parents[2]
FAST = 100e6


@contextlib.contextmanager
def link(*upstream_ports: int, bytes_per_s: float = FAST, latency_s: float = 0.0) -> Iterator[list[int]]:
    """One running proxy with a link to each upstream port; gives the ports it listens on. It must end cleanly."""
    ports = [free_port() for _ in upstream_ports]
    links = [f"--link={port}:{upstream}" for port, upstream in zip(ports, upstream_ports, strict=True)]
    options = ["--bytes-per-s", str(bytes_per_s), "--latency-s", str(latency_s)]
    with subprocess.Popen(
        [sys.executable, "-m", "harness.stack.link_proxy", *links, *options],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield ports
        finally:
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")


class Server:
    """A TCP server that gives every connection to `serve` in a thread."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        """Send back what comes, after it has ended: needs the half-close of the other side."""
        with connection, contextlib.suppress(OSError):
            received = bytearray()
            while data := connection.recv(1 << 16):
                received += data
            connection.sendall(received)


class Resetting(Server):
    """Answers the first bytes with a reset."""

    def serve(self, connection: socket.socket) -> None:
        """Close with the received bytes unread, which resets."""
        connection.recv(1)
        connection.close()


def echoed(port: int, sent: bytes) -> bytes:
    """What comes back for `sent` and a half-close."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        sender = threading.Thread(target=lambda: (connection.sendall(sent), connection.shutdown(socket.SHUT_WR)))
        sender.start()
        received = bytearray()
        while data := connection.recv(1 << 16):
            received += data
        sender.join()
    return bytes(received)


def seconds_to_echo(ports: list[int], sent: bytes) -> float:
    """How long echoes over all `ports` at once take; the better of two tries, for the cores may be busy."""
    took = []
    for _ in range(2):
        with ThreadPoolExecutor(len(ports)) as pool:
            start = time.perf_counter()
            assert list(pool.map(echoed, ports, [sent] * len(ports))) == [sent] * len(ports)
            took.append(time.perf_counter() - start)
    return min(took)


@pytest.mark.parametrize("latency_s", [0.0, 0.02])
def test_bytes_and_half_closes_pass_unchanged(latency_s: float) -> None:
    """What goes in comes out, at any size, and the end of one stream leaves the other open."""
    with Server() as server, link(server.port, latency_s=latency_s) as (port,):
        for size in (0, 1, 5000, 3_000_000):
            sent = random.Random(size).randbytes(size)
            assert echoed(port, sent) == sent


def test_the_rate_is_what_was_asked() -> None:
    """A link of a fifth of the rate takes about five times as long, within one run."""
    sent = bytes(300_000)
    with Server() as server, link(server.port, bytes_per_s=1e5) as slow, link(server.port, bytes_per_s=5e5) as fast:
        ratio = seconds_to_echo(slow, sent) / seconds_to_echo(fast, sent)
    assert 2.0 < ratio < 9.0


def test_latency_does_not_lower_the_rate() -> None:
    """A long transfer over a link with latency takes the latency longer, not a multiple of it a read."""
    sent = bytes(1_000_000)
    with (
        Server() as server,
        link(server.port, bytes_per_s=1e6) as near,
        link(server.port, bytes_per_s=1e6, latency_s=0.1) as far,
    ):
        ratio = seconds_to_echo(far, sent) / seconds_to_echo(near, sent)
    assert ratio < 2.5


def test_connections_share_a_link_and_links_share_nothing() -> None:
    """Four transfers over one link take much longer than over four links of one process."""
    sent = bytes(100_000)
    with Server() as server, link(*[server.port] * 4, bytes_per_s=1e5) as ports:
        shared = seconds_to_echo([ports[0]] * 4, sent)
        apart = seconds_to_echo(ports, sent)
    assert shared > 1.6 * apart


def test_a_dead_upstream_ends_the_connection() -> None:
    """When nothing listens behind the link, an accepted connection is reset or closed, not left open."""
    with (
        link(free_port()) as (port,),
        contextlib.suppress(ConnectionResetError),  # it may come before connect() has returned
        socket.create_connection(("127.0.0.1", port), 20) as connection,
    ):
        assert ended(connection)


def test_a_reset_passes_through() -> None:
    """When the server breaks the connection, so does the link."""
    with (
        Resetting() as server,
        link(server.port) as (port,),
        socket.create_connection(("127.0.0.1", port), 20) as connection,
    ):
        connection.sendall(b"hello")
        assert ended(connection)


def test_a_client_that_leaves_ends_the_upstream_connection() -> None:
    """When the client resets in the middle of a reply, the link lives on for others."""
    with Server() as server, link(server.port, bytes_per_s=1e6) as (port,):
        with socket.create_connection(("127.0.0.1", port), 20) as leaver:
            leaver.sendall(bytes(200_000))
            leaver.shutdown(socket.SHUT_WR)
            leaver.recv(1)
        assert echoed(port, b"hello") == b"hello"


def ended(connection: socket.socket) -> bool:
    """Whether the connection ends with no more bytes; a timeout is an error."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_a_taken_port_is_said() -> None:
    """A port that something else listens on ends the program with status 1 and one line, no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = subprocess.run(
            [sys.executable, "-m", "harness.stack.link_proxy", f"--link={port}:{free_port()}", "--bytes-per-s=1e6"],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert len(ran.stderr.splitlines()) == 1
    assert ran.stderr.startswith("link_proxy:")


def test_the_client_reads_valkey_through_links(tmp_path: Path) -> None:
    """The sharded client stores and loads through links; a server killed behind its link costs its chunks alone."""
    values = [random.Random(i).randbytes(60_000) for i in range(12)]
    keys = [f"m@01000100@0@{i:064x}" for i in range(12)]
    with running(2, tmp_path) as servers, link(*[one.port for one in servers], bytes_per_s=20e6) as ports:
        client = ShardedValkey([f"127.0.0.1:{port}" for port in ports])
        try:
            assert wait(client, client.submit_batch_set(keys, values))[0]
            memory = [bytearray(60_000) for _ in keys]
            views = [memoryview(one) for one in memory]
            assert wait(client, client.submit_batch_get(keys, views)) == (True, [True] * 12)
            assert memory == values
            servers[1].kill()
            assert wait(client, client.submit_batch_get(keys, views)) == (True, [True, False] * 6)
        finally:
            client.close()


def wait(client: ShardedValkey, future_id: int) -> tuple[bool, list[bool]]:
    """ok and results of the only open future."""
    assert select.select([client.event_fd()], [], [], 60)[0], "no completion"
    ((completed, ok, _, results),) = client.drain_completions()
    assert completed == future_id
    return ok, results
