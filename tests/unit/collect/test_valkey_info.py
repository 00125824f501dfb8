"""harness.collect.valkey_info: INFO as a reading (the live part is in tests/integration/test_collect_valkey.py)."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.collect import ValkeyReading, flush_valkeys, read_valkeys
from harness.collect.valkey_info import parse_info
from harness.errors import CollectError
from tests.fakes.valkey_servers import free_port

COUNT = st.integers(0, 2**50)
EMPTY = {"total_net_output_bytes": 10, "total_net_input_bytes": 20, "used_memory": 30, "evicted_keys": 0}


@settings(deadline=None)
@given(*[COUNT] * 7)
def test_a_reading_is_what_info_says(
    gets: int, sets: int, out: int, into: int, keys: int, memory: int, evicted: int
) -> None:
    """Calls, bytes, keys, memory and evictions come from their own fields, whatever else is there."""
    info = {
        "cmdstat_get": {"calls": gets, "usec": 1},
        "cmdstat_set": {"calls": sets, "usec": 1},
        "cmdstat_info": {"calls": 9},
        "cmdstat_getex": {"calls": 9},
        "total_net_output_bytes": out,
        "total_net_input_bytes": into,
        "total_net_repl_output_bytes": 9,
        "db0": {"keys": keys, "expires": 0},
        "used_memory": memory,
        "evicted_keys": evicted,
    }
    more = {"exists_calls": 0, "get_usec": 1, "set_usec": 1}
    assert parse_info(info) == ValkeyReading(gets, sets, out, into, keys, memory, evicted, **more)


def test_a_command_never_called_counts_zero() -> None:
    """Valkey has no line for it, and an empty instance has no database: these zeros are its own."""
    more = {"exists_calls": 0, "get_usec": 0, "set_usec": 0}
    assert parse_info(EMPTY) == ValkeyReading(0, 0, 10, 20, 0, 30, 0, **more)


def test_what_an_instance_says_of_itself_is_taken_and_the_rest_is_missing() -> None:
    """CPU time of all threads, hits and misses, connections, the latency of a GET; absent where it is not said."""
    info = {
        **EMPTY,
        "used_cpu_user": 1.5,
        "used_cpu_sys": 0.25,
        "keyspace_hits": 7,
        "keyspace_misses": 3,
        "expired_keys": 1,
        "connected_clients": 4,
        "rejected_connections": 2,
        "latency_percentiles_usec_get": {"p50": 1.0, "p99": 12.5, "p99.9": 20.0},
    }
    reading = parse_info(info)
    assert (reading.cpu_s, reading.keyspace_hits, reading.keyspace_misses, reading.expired_keys) == (1.75, 7, 3, 1)
    assert (reading.connected_clients, reading.rejected_connections, reading.get_p99_usec) == (4, 2, 12.5)
    assert parse_info({**EMPTY, "used_cpu_user": 1.5}).cpu_s is None
    assert reading.slowlog_entries is None, "it takes a command of its own"


def test_keys_of_all_databases_count() -> None:
    """An instance may hold several databases."""
    assert parse_info({**EMPTY, "db0": {"keys": 3}, "db5": {"keys": 4}}).keys == 7


def test_an_instance_that_does_not_answer_is_a_gap() -> None:
    """Nobody listening gives None for that instance and no exception; flushing it is an error that names it."""
    url = f"valkey://127.0.0.1:{free_port()}"
    assert asyncio.run(read_valkeys([url])) == (None,)
    with pytest.raises(CollectError) as caught:
        asyncio.run(flush_valkeys([url]))
    assert caught.value.where == url
