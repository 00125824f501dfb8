"""Where requests go: servers, endpoint, key, TLS; plain values that can be handed to another process."""

import os
import ssl
from dataclasses import dataclass, field
from enum import StrEnum

from harness.client.route import Route
from harness.client.timeouts import Timeouts


class Endpoint(StrEnum):
    """The two endpoints of OpenAI's API that stream text. A plan's bodies are made for one of them."""

    COMPLETIONS = "/v1/completions"
    CHAT = "/v1/chat/completions"


class Http(StrEnum):
    """The library that carries the load."""

    HTTPTOOLS = "httptools"
    AIOHTTP = "aiohttp"


@dataclass(frozen=True, slots=True)
class Target:
    """What a replay is sent to, and how.

    `urls` (http://host:port or https://..., a path prefix allowed) share the load by `route`. `api_key_env` names the
    environment variable that holds the bearer token: the key itself is in no value that is ever written. `ca_file` is
    trusted in addition to the system's authorities; `verify` False trusts anybody. A request that a server refused, or
    turned away before its first byte, is sent again up to `retries` times.
    """

    urls: tuple[str, ...]
    endpoint: Endpoint = Endpoint.COMPLETIONS
    route: Route = Route.ROUND_ROBIN
    api_key_env: str | None = None
    ca_file: str | None = None
    verify: bool = True
    http: Http = Http.HTTPTOOLS
    retries: int = 0
    timeouts: Timeouts = field(default_factory=Timeouts)

    def servers(self) -> tuple["Server", ...]:
        """One of each URL. Raises KeyError where the environment has no `api_key_env`."""
        key = None if self.api_key_env is None else os.environ[self.api_key_env]
        return tuple(Server(url, self.endpoint.value, key, self.ca_file, self.verify) for url in self.urls)


@dataclass(frozen=True, slots=True)
class Server:
    """One server: its base URL, the path of the endpoint, and what it takes to be let in. Never printed or stored."""

    url: str
    path: str = Endpoint.COMPLETIONS.value
    api_key: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    verify: bool = True

    def tls_context(self) -> ssl.SSLContext | None:
        """How to speak TLS with it; None for http. Raises OSError where `ca_file` cannot be read."""
        return trusting(self.ca_file, verify=self.verify) if self.url.startswith("https:") else None


def trusting(ca_file: str | None, *, verify: bool) -> ssl.SSLContext:
    """The system's authorities and those of `ca_file`; anybody without `verify`. Raises OSError: it cannot be read."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
