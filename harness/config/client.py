"""How requests are sent: transport, endpoint, deadlines."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from harness.config.strict import Strict
from harness.config.units import parse_seconds

PositiveSeconds = Annotated[float, BeforeValidator(parse_seconds), Field(gt=0)]


class Client(Strict):
    """How requests are sent.

    `workers` processes send an open loop (None: as many as the plan needs). `api_key_env` names the environment
    variable that holds the key. A request that was refused, or turned away before its first byte, is sent again up to
    `retries` times. The deadlines run until the request is written, from then to the first byte of the body, from one
    piece of the body to the next, and over all of it. `on_interrupt` says what Ctrl-C does to requests in flight; a
    second Ctrl-C ends them in any case.
    """

    http: Literal["httptools", "aiohttp"] = "httptools"
    workers: Annotated[int, Field(ge=1, le=64)] | None = None
    endpoint: Literal["completions", "chat"] = "completions"
    route: Literal["round-robin", "session", "prefix"] = "round-robin"
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    ca_file: str | None = None
    verify_tls: bool = True
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    connect_deadline: PositiveSeconds = 10.0
    first_byte_deadline: PositiveSeconds = 600.0
    between_bytes_deadline: PositiveSeconds = 120.0
    total_deadline: PositiveSeconds = 1800.0
    on_interrupt: Literal["drain", "cancel"] = "drain"
