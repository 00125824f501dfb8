"""What Valkeys deliver without an engine: chunk-sized values, read over and over by the client that LMCache loads."""

import logging
import os
import secrets
import select
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from itertools import count
from urllib.parse import parse_qsl

import numpy as np

from harness.errors import ConfigError, StackError
from harness.model import Estimate
from harness.model.rate import mean_rate
from harness.plugins.log import logger
from harness.plugins.placement import home_over
from harness.plugins.sharded_valkey import Completion, ShardedValkey

CLIENTS = (1, 2, 4, 8)
_VALUES_PER_INSTANCE = 4
_BURSTS = 3
_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class RawPoint:
    """`clients` connections to each of `instances` Valkeys: bytes a second in total, and of each instance."""

    clients: int
    instances: int
    bytes_per_s: Estimate
    each_bytes_per_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Credentials:
    """Environment variables that hold a username and a password, and a file with certificates; None: none needed."""

    username_env: str | None = None
    password_env: str | None = None
    ca_file: str | None = None


def entered(urls: Sequence[str]) -> tuple[list[str], Credentials]:
    """URLs as LMCache's client takes them, and the way in that their queries name, as in `?password_env=NAME`.

    Raises ConfigError where they name several: the client takes one for all instances.
    """
    parts = [url.partition("?") for url in urls]
    ways = {query for _, _, query in parts}
    if len(ways) > 1:
        raise ConfigError(
            "the Valkeys are not entered in the same way", where=", ".join(ways), remedy="give all the same credentials"
        )
    known = dict(parse_qsl(ways.pop() if ways else ""))
    return [address for address, _, _ in parts], Credentials(*(known.get(one.name) for one in fields(Credentials)))


def sweep(
    endpoints: Sequence[str], value_bytes: int, seconds: float, say: Callable[[str], None], credentials: Credentials
) -> tuple[RawPoint, ...]:
    """Bandwidth against clients 1 to 8, on one instance and on all, and against instances at 8 clients.

    Values of `value_bytes` are stored under names of their own, read for `seconds` each time, and deleted. Raises
    ConfigError for endpoints or credentials that are none, StackError when an instance does not store or serve.
    """
    if value_bytes < 1 or not seconds > 0:
        raise ConfigError(
            f"values of {value_bytes} bytes for {seconds} s", where="raw probe", remedy="both are above zero"
        )
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # what it says of outages is in our errors
    wanted = dict.fromkeys((clients, used) for used in (1, len(endpoints)) for clients in CLIENTS)
    steps = (1 << power for power in range(1, len(endpoints).bit_length()))
    wanted |= dict.fromkeys((CLIENTS[-1], used) for used in steps if used < len(endpoints))
    points = []
    for used in sorted({used for _, used in wanted}):
        say(f"reading values of {value_bytes:,} bytes from {used} of {len(endpoints)} Valkeys")
        with _Stored(endpoints[:used], value_bytes, credentials) as stored:
            points += [stored.read(clients, seconds) for clients, of in wanted if of == used]
    return tuple(points)


class _Stored:
    """Values spread evenly over instances, while the context is open."""

    def __init__(self, endpoints: Sequence[str], value_bytes: int, credentials: Credentials) -> None:
        self._endpoints, self._value_bytes, self._credentials = list(endpoints), value_bytes, credentials
        with self._client(1) as client:
            self._keys = _even_keys(list(client.statistics()))

    def __enter__(self) -> "_Stored":
        value = np.random.default_rng(0).bytes(self._value_bytes)
        with self._client(2) as client:
            future = client.submit_batch_set(self._keys, [value] * len(self._keys))
            self._require(_wait(client, future), "store")
        return self

    def __exit__(self, *_: object) -> None:
        with self._client(1) as client:
            _wait(client, client.submit_batch_delete(self._keys))

    def read(self, clients: int, seconds: float) -> RawPoint:
        """Keep `clients` connections to each instance reading, in bursts: bytes of a burst / its time, over the bursts.

        A burst begins with every connection idle and ends when all have all of theirs, so that no byte is on its way at
        either end. The first one tells how many values a burst of good length has; it opens the connections too, and
        counts only where it is so long itself that this does not.
        """
        instances = len(self._endpoints)
        portion = instances * clients * self._value_bytes
        with self._client(clients) as client:
            first_s = self._burst(client, clients, 1)
            rounds = max(1, round(seconds / _BURSTS / first_s))
            counted = [first_s] if rounds == 1 else []
            times_s = counted + [self._burst(client, clients, rounds) for _ in range(_BURSTS - len(counted))]
            served = [one.loaded_bytes for one in client.statistics().values()]
        total = mean_rate(times_s, rounds * portion)
        return RawPoint(clients, instances, total, tuple(total.value * part / sum(served) for part in served))

    def _burst(self, client: ShardedValkey, clients: int, rounds: int) -> float:
        """Seconds in which every connection reads `rounds` values."""
        instances = len(self._endpoints)
        of_instance = [self._keys[instance::instances] for instance in range(instances)]
        keys, buffers = [], []
        for names in of_instance:
            for _ in range(clients):  # a connection's values are consecutive (plugins.batch.dealt): one buffer will do
                buffer = memoryview(bytearray(self._value_bytes))
                keys += [names[nth % len(names)] for nth in range(rounds)]
                buffers += [buffer] * rounds
        began_ns = time.perf_counter_ns()
        completion = _wait(client, client.submit_batch_get(keys, buffers))
        self._require(completion, "load")
        return (time.perf_counter_ns() - began_ns) / 1e9

    def _require(self, completion: Completion, what: str) -> None:
        _, _, error, results = completion
        if not all(results):
            missing = results.count(False)
            raise StackError(
                f"the Valkeys did not {what} {missing} of {len(results)} values of {self._value_bytes:,} bytes"
                + (f": {error}" if error else ""),
                where=", ".join(self._endpoints),
                remedy="are they up, large enough (maxmemory), and is a password needed (--password-env)?",
            )

    def _client(self, workers: int) -> "closing[ShardedValkey]":
        given = self._credentials
        try:
            client = ShardedValkey(
                self._endpoints,
                workers_per_instance=workers,
                deadline_s=_DEADLINE_S,
                username_env=given.username_env,
                password_env=given.password_env,
                ca_file=given.ca_file,
            )
        except (ValueError, OSError) as error:
            raise ConfigError(
                f"the Valkeys cannot be used: {error}",
                where=", ".join(self._endpoints),
                remedy="write host:port, valkeys://host:port (TLS) or unix:///path, credentials as variables' names",
            ) from error
        return closing(client)


def _even_keys(names: Sequence[str]) -> list[str]:
    """Names of values that nobody else has, as many on each instance, one instance after the other."""
    home, prefix = home_over(names, "chunk"), f"kvreplay-raw-{os.getpid()}-{secrets.token_hex(4)}"
    found: list[list[str]] = [[] for _ in names]
    for number in count():
        key = f"{prefix}-{number}"
        keys = found[home(key)]
        if len(keys) < _VALUES_PER_INSTANCE:
            keys.append(key)
        if all(len(one) == _VALUES_PER_INSTANCE for one in found):
            return [one[nth] for nth in range(_VALUES_PER_INSTANCE) for one in found]
    raise AssertionError


def _wait(client: ShardedValkey, future: int) -> Completion:
    """The completion of the only batch that is under way."""
    poller = select.poll()
    poller.register(client.event_fd(), select.POLLIN)
    while True:
        poller.poll()
        for completion in client.drain_completions():
            if completion[0] == future:
                return completion
