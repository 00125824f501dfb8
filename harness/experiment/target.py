"""From the config's `client` block to the target that requests are sent to."""

import os
import ssl
from collections.abc import Collection, Generator
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from harness.client import Endpoint, Http, Route, Target, Timeouts, trusting
from harness.config import Client
from harness.errors import ConfigError

_ENDPOINTS = {"completions": Endpoint.COMPLETIONS, "chat": Endpoint.CHAT}


def target_of(client: Client, urls: tuple[str, ...]) -> Target:
    """Where and how requests are sent."""
    return Target(
        urls=urls,
        endpoint=_ENDPOINTS[client.endpoint],
        route=Route(client.route),
        api_key_env=client.api_key_env,
        ca_file=client.ca_file,
        verify=client.verify_tls,
        http=Http(client.http),
        retries=client.retries,
        timeouts=Timeouts(
            connect_s=client.connect_deadline,
            first_byte_s=client.first_byte_deadline,
            between_bytes_s=client.between_bytes_deadline,
            total_s=client.total_deadline,
        ),
    )


def asking(client: Client, urls: Collection[str], timeout_s: float) -> httpx.AsyncClient:
    """What asks servers for anything but the load: they are trusted, and let us in, as for the load.

    The key goes to the hosts of `urls` alone. Like the load, it takes no proxy from the environment.
    """
    key = None if client.api_key_env is None else os.environ[client.api_key_env]
    return httpx.AsyncClient(
        timeout=timeout_s,
        verify=trusting(client.ca_file, verify=client.verify_tls),
        auth=None if key is None else _Bearer(key, {urlsplit(url).netloc for url in urls}),
        trust_env=False,
    )


class _Bearer(httpx.Auth):
    """The key, for those it is meant for."""

    def __init__(self, key: str, places: Collection[str]) -> None:
        self._key, self._places = key, places

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """The header, on the way to them."""
        if request.url.netloc.decode() in self._places:
            request.headers["Authorization"] = f"Bearer {self._key}"
        yield request


def require_client(client: Client, path: Path) -> None:
    """Raises ConfigError where the key or the certificate file that the config names is not there."""
    if client.api_key_env is not None and not os.environ.get(client.api_key_env):
        raise ConfigError(
            f"the environment variable {client.api_key_env} is not set",
            where=f"{path}: client.api_key_env",
            remedy=f"export {client.api_key_env}=..., the key that the servers expect",
        )
    if client.ca_file is not None:
        try:
            ssl.create_default_context(cafile=client.ca_file)
        except OSError as error:
            raise ConfigError(
                f"the certificates in {client.ca_file} cannot be read: {error}",
                where=f"{path}: client.ca_file",
                remedy="give a PEM file",
            ) from error
