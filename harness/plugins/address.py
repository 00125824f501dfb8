"""Where a Valkey instance answers and how to enter: what people write, taken apart."""

import os
import re
import ssl
from dataclasses import dataclass, field

_TCP = re.compile(
    r"(?:(?P<scheme>[a-z]+)://)?(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s/:@\[\]]+)):(?P<port>[0-9]{1,5})/?"
)
_UNIX = re.compile(r"unix://(?P<path>/\S+)")
_PLAIN = frozenset({None, "valkey", "redis", "resp"})
_TLS = frozenset({"valkeys", "rediss", "resps"})


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP host and port, with or without TLS; or, if `path` is not empty, a unix socket.

    `name` is the address without its scheme: what log lines call the instance, and what consistent hashing hashes.
    """

    name: str
    host: str = ""
    port: int = 0
    path: str = ""
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """What an instance asks of a client before it serves it: a password, and a TLS context for addresses with TLS."""

    username: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None


def parse_address(text: str) -> Address:
    """`host:port`, `valkey://host:port` (redis, resp), `valkeys://host:port` (rediss, resps: TLS) or `unix:///path`.

    Raises ValueError for anything else; a password never belongs into an address.
    """
    if unix := _UNIX.fullmatch(text):
        return Address(name=unix["path"], path=unix["path"])
    tcp = _TCP.fullmatch(text)
    if tcp is None or tcp["scheme"] not in _PLAIN | _TLS or not 0 < int(tcp["port"]) < 1 << 16:
        raise ValueError(f"endpoint {text!r} is not host:port, valkeys://host:port or unix:///path")
    host = tcp["v6"] or tcp["host"]
    return Address(f"{host}:{tcp['port']}", host=host, port=int(tcp["port"]), tls=tcp["scheme"] in _TLS)


def entry_from(username_env: str | None, password_env: str | None, tls: ssl.SSLContext | None) -> Entry:
    """The entry whose username and password are in environment variables, so that no command line shows them.

    Raises ValueError when a named variable is not set.
    """
    return Entry(_variable(username_env), _variable(password_env), tls)


def _variable(name: str | None) -> str:
    if name is None:
        return ""
    if not os.environ.get(name):
        raise ValueError(f"the environment variable {name}, which is to hold a credential, is not set")
    return os.environ[name]
