"""The client without a server: what it refuses, and that every future completes."""

import select
import socket

import pytest

from harness.plugins.sharded_valkey import Completion, ShardedValkey


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"endpoints": []}, "endpoints"),
        ({"endpoints": ["localhost"]}, "localhost"),
        ({"endpoints": [":6379"]}, ":6379"),
        ({"endpoints": ["h:port"]}, "h:port"),
        ({"endpoints": ["h:1"], "placement": "slot"}, "slot"),
        ({"endpoints": ["h:1"], "workers_per_instance": 0}, "workers_per_instance"),
        ({"endpoints": ["h:1"], "deadline_s": 0}, "deadline_s"),
        ({"endpoints": ["h:1"], "silence_s": 0}, "silence_s"),
        ({"endpoints": ["h:1", "valkey://h:1"]}, "'h:1' twice"),
        ({"endpoints": ["h:1"], "password_env": "KVREPLAY_TEST_UNSET"}, "KVREPLAY_TEST_UNSET"),
    ],
)
def test_wrong_parameters_are_named(arguments: dict[str, object], named: str) -> None:
    """A wrong parameter of LMCache's adapter_params is a ValueError that names it."""
    with pytest.raises(ValueError, match=named):
        ShardedValkey(**arguments)  # type: ignore[arg-type]


def wait_for(client: ShardedValkey, future_id: int) -> Completion:
    """The one completion of a future, waited for as LMCache does."""
    poller = select.poll()
    poller.register(client.event_fd(), select.POLLIN)
    assert poller.poll(20_000), "no completion"
    (completion,) = client.drain_completions()
    assert completion[0] == future_id
    return completion


def test_an_instance_that_refuses_costs_misses() -> None:
    """With nobody listening, every operation completes with False for each key and says why."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        client = ShardedValkey([f"127.0.0.1:{unused.getsockname()[1]}"])
        try:
            for submit in (client.submit_batch_exists, client.submit_batch_delete):
                _, ok, error, results = wait_for(client, submit(["a", "b"]))
                assert (ok, results) == (True, [False, False])
                assert "127.0.0.1" in error
            _, ok, _, results = wait_for(client, client.submit_batch_set(["a"], [b"value"]))
            assert (ok, results) == (False, [False])
        finally:
            client.close()


def test_a_silent_instance_is_given_up_at_the_deadline() -> None:
    """An instance that accepts and never answers costs the deadline, not a hang, and later batches wait no longer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = ShardedValkey([f"127.0.0.1:{silent.getsockname()[1]}"], deadline_s=0.2)
        try:
            futures = {client.submit_batch_get(["a"], [memoryview(bytearray(8))]) for _ in range(6)}
            poller = select.poll()
            poller.register(client.event_fd(), select.POLLIN)
            completions: list[Completion] = []
            while len(completions) < len(futures):
                assert poller.poll(20_000), "no completion"
                completions += client.drain_completions()
            assert {completion[0] for completion in completions} == futures
            assert all(completion[3] == [False] for completion in completions)
        finally:
            client.close()


def test_close_completes_what_is_open_once() -> None:
    """Futures that are running, queued or submitted after close all complete, each once, and close may be repeated."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = ShardedValkey([f"127.0.0.1:{silent.getsockname()[1]}"], deadline_s=60.0)
        futures = [client.submit_batch_exists(["a", "b"]) for _ in range(8)]
        client.close()
        client.close()
        futures.append(client.submit_batch_exists(["a", "b"]))
        completions = client.drain_completions()
        assert sorted(completion[0] for completion in completions) == futures
        assert all(completion[3] == [False, False] for completion in completions)
        assert client.drain_completions() == []


def test_an_empty_batch_completes() -> None:
    """A batch of no keys completes with no results, without a connection."""
    client = ShardedValkey(["127.0.0.1:1"])
    try:
        future = client.submit_batch_get([], [])
        assert wait_for(client, future) == (future, True, "", [])
    finally:
        client.close()


def test_memory_that_cannot_be_used_costs_its_batch_alone() -> None:
    """Keys and buffers of unequal number are refused at once, and the client goes on working."""
    client = ShardedValkey(["127.0.0.1:1"])
    try:
        with pytest.raises(ValueError, match="2 keys, but 1 buffers"):
            client.submit_batch_get(["a", "b"], [memoryview(bytearray(1))])
        future = client.submit_batch_exists(["a"])
        assert wait_for(client, future)[3] == [False]
    finally:
        client.close()
