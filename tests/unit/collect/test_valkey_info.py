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
    assert parse_info(info) == ValkeyReading(gets, sets, out, into, keys, memory, evicted)


def test_a_command_never_called_counts_zero() -> None:
    """Valkey has no line for it, and an empty instance has no database: these zeros are its own."""
    assert parse_info(EMPTY) == ValkeyReading(0, 0, 10, 20, 0, 30, 0)


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
