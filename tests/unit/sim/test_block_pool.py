"""vLLM's block pool."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sim.block_pool import BlockPool, Held
from harness.sim.keys import prefix_keys

PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=20)


def keys(tokens: list[int], block: int) -> list[bytes]:
    """The keys of a prompt's whole blocks."""
    return list(prefix_keys(np.array(tokens, dtype=np.uint32), block))


def serve(pool: BlockPool, tokens: list[int], answer: int = 1) -> int:
    """Run one request from its begin to its end; the tokens it hit."""
    names = keys(tokens, pool.block_tokens)
    hits = pool.hits(names, len(tokens))
    held = pool.admit(names, hits, len(tokens), len(tokens))
    assert held is not None
    pool.publish(held, len(tokens))
    assert pool.grow(held, len(tokens) + answer - 1)
    pool.publish(held, len(tokens) + answer - 1)
    pool.release(held)
    return len(hits) * pool.block_tokens


@given(PROMPTS, st.integers(1, 3), st.integers(0, 8))
def test_in_a_large_pool_hits_are_shared_prefixes(prompts: list[list[int]], block: int, answer: int) -> None:
    """With room for all, a prompt hits the whole blocks that an earlier one began with, but for its last token."""
    pool = BlockPool(500, block)
    for place, prompt in enumerate(prompts):
        shared = max(
            (
                hit
                for hit in range(0, len(prompt), block)
                if any(past[:hit] == prompt[:hit] for past in prompts[:place])
            ),
            default=0,
        )
        assert serve(pool, prompt, answer + 1) == shared


@given(PROMPTS, st.integers(1, 3), st.integers(14, 30))
def test_more_room_never_hits_less_one_by_one(prompts: list[list[int]], block: int, blocks: int) -> None:
    """Request by request, one after another, one block more never hits less in all."""
    small, large = BlockPool(blocks, block), BlockPool(blocks + 12, block)
    assert sum(serve(small, one) for one in prompts) <= sum(serve(large, one) for one in prompts)


@given(PROMPTS, st.integers(1, 3), st.data())
def test_no_block_is_lost(prompts: list[list[int]], block: int, data: st.DataObject) -> None:
    """When all have ended every block is free again, and none was given to two that share nothing."""
    pool = BlockPool(24, block)
    flight: list[Held] = []
    for tokens in prompts:
        names = keys(tokens, block)
        held = pool.admit(names, pool.hits(names, len(tokens)), len(tokens), len(tokens))
        if held is None:
            for one in flight:
                pool.release(one)
            flight = []
            continue
        pool.publish(held, len(tokens))
        flight.append(held)
        private = [one.blocks[one.published :] for one in flight]
        assert len({block for blocks in private for block in blocks}) == sum(map(len, private))
        if data.draw(st.booleans()):
            pool.release(flight.pop(data.draw(st.integers(0, len(flight) - 1))))
    for one in flight:
        pool.release(one)
    everything = pool.admit([], [], 23 * block, 0)
    assert everything is not None
    assert sorted(everything.blocks) == list(range(1, 24))


def test_the_tail_of_the_oldest_prompt_goes_first() -> None:
    """Of a prompt of four blocks whose two are taken back, the first two still hit."""
    pool = BlockPool(7, 1)  # six usable
    serve(pool, [1, 2, 3, 4])
    serve(pool, [5, 6, 7, 8])
    assert serve(pool, [1, 2, 3, 4]) == 2


def test_what_has_no_key_is_taken_first() -> None:
    """The half-full last block of a prompt is used again before any block that could be hit."""
    pool = BlockPool(6, 2)  # five usable
    for _ in range(3):
        serve(pool, [9, 9, 9, 9, 9])  # two blocks with a key, one without
    assert serve(pool, [9, 9, 9, 9, 9]) == 4
    serve(pool, [1, 2, 3, 4, 5])
    assert serve(pool, [9, 9, 9, 9, 9]) == 4


def test_requests_in_flight_share_what_is_computed() -> None:
    """A prompt that is admitted while another with its prefix runs uses the same blocks."""
    pool = BlockPool(5, 2)
    names = keys([1, 2, 3, 4, 5], 2)
    first = pool.admit(names, [], 5, 5)
    assert first is not None
    pool.publish(first, 5)
    second = pool.admit(names, pool.hits(names, 5), 5, 5)
    assert second is not None
    assert second.blocks[:2] == first.blocks[:2]
    assert pool.admit(keys([7, 7, 7], 2), [], 3, 3) is None, "none is left"


@pytest.mark.parametrize(("caching", "hit"), [(True, 4), (False, 0)])
def test_without_prefix_caching_nothing_hits(caching: bool, hit: int) -> None:
    """--no-enable-prefix-caching."""
    pool = BlockPool(10, 2, caching=caching)
    serve(pool, [1, 2, 3, 4, 5])
    assert serve(pool, [1, 2, 3, 4, 5]) == hit


@pytest.mark.parametrize(("blocks", "block"), [(1, 16), (2, 0)])
def test_refuses_a_pool_of_nothing(blocks: int, block: int) -> None:
    """The null block alone serves nobody."""
    with pytest.raises(ValueError, match="two blocks at least"):
        BlockPool(blocks, block)
