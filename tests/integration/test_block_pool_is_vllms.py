"""The simulated block pool against vLLM's own KV cache manager: the same hits, the same free blocks, step by step."""

import random
from typing import Any

import numpy as np
import pytest

from harness.schedule import Prompting, plan_passes
from harness.sim import CacheSpec, simulate_cache
from harness.sim.block_pool import BlockPool, Held
from harness.sim.keys import prefix_keys
from tests.fakes.plans import CELL

pytest.importorskip("vllm")

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]


class Pair:
    """vLLM's manager of one full-attention group, driven as its scheduler drives it, and ours beside it."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        import torch  # noqa: PLC0415 - takes seconds
        from vllm.utils.hashing import sha256  # noqa: PLC0415
        from vllm.v1.core.kv_cache_manager import KVCacheManager  # noqa: PLC0415
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash  # noqa: PLC0415
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec  # noqa: PLC0415

        init_none_hash(sha256)
        self._hasher = get_request_block_hasher(block_tokens, sha256)
        spec = FullAttentionSpec(block_size=block_tokens, num_kv_heads=1, head_size=8, dtype=torch.float32)
        config = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["l"], spec)])
        self.theirs = KVCacheManager(
            config, max_model_len=10_000, scheduler_block_size=block_tokens, hash_block_size=block_tokens
        )
        self.ours = BlockPool(blocks, block_tokens)

    def admit(self, name: str, tokens: list[int]) -> tuple[Any, Held] | None:
        """Admit a prompt to both, or to neither; both hit the same tokens."""
        from vllm import SamplingParams  # noqa: PLC0415
        from vllm.v1.request import Request  # noqa: PLC0415

        request = Request(name, tokens, SamplingParams(max_tokens=99), None, block_hasher=self._hasher)
        blocks, hit, _ = self.theirs.get_computed_blocks(request)
        keys = list(prefix_keys(np.array(tokens, dtype=np.uint32), self.ours.block_tokens))
        hits = self.ours.hits(keys, len(tokens))
        assert hit == len(hits) * self.ours.block_tokens
        taken = self.theirs.allocate_slots(request, len(tokens) - hit, hit, blocks, full_sequence_must_fit=True)
        held = self.ours.admit(keys, hits, len(tokens), len(tokens))
        assert (taken is None) == (held is None)
        if held is None:
            return None
        request.num_cached_tokens, request.num_computed_tokens = hit, len(tokens)
        self.ours.publish(held, len(tokens))
        return request, held

    def answer(self, request: Any, held: Held, tokens: list[int]) -> None:
        """Compute an answer's tokens one after another in both, as far as there are blocks."""
        for token in tokens:
            request.append_output_token_ids(token)
            grown = self.theirs.allocate_slots(request, 1) is not None
            assert self.ours.grow(held, request.num_tokens) == grown
            if not grown:
                return
            request.num_computed_tokens += 1
            self.ours.publish(held, request.num_tokens)

    def free(self, request: Any, held: Held) -> None:
        """End a request in both; as many blocks are free."""
        self.theirs.free(request)
        self.ours.release(held)
        free = self.theirs.block_pool.get_num_free_blocks()
        assert self.ours.admit([], [], (free + 1) * self.ours.block_tokens, 0) is None


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("blocks", "block_tokens"), [(44, 16), (60, 8), (23, 32)])
def test_hits_and_free_blocks_are_vllms(blocks: int, block_tokens: int, seed: int) -> None:
    """Hundreds of requests over few documents, several in flight, with answers: equal at every step."""
    draws = random.Random(f"{seed}/{blocks}")
    pair = Pair(blocks, block_tokens)
    documents = [[draws.randrange(1000) for _ in range(draws.randrange(20, 300))] for _ in range(6)]
    flight: list[tuple[Any, Held]] = []
    hits = 0
    for name in range(250):
        document = draws.choice(documents)
        own = [draws.randrange(1000) for _ in range(draws.randrange(1, 40))]
        admitted = pair.admit(str(name), document[: draws.randrange(1, len(document) + 1)] + own)
        if admitted is not None:
            flight.append(admitted)
            hits += admitted[1].published
        while len(flight) > (0 if admitted is None else draws.randrange(1, 4)):
            request, held = flight.pop(draws.randrange(len(flight)))
            pair.answer(request, held, [draws.randrange(2000, 9000) for _ in range(draws.randrange(40))])
            pair.free(request, held)
    assert hits > 100


@pytest.mark.parametrize(("blocks", "block_tokens"), [(44, 128), (30, 128), (352, 16), (250, 16)])
def test_the_ten_documents_hit_as_in_vllm(blocks: int, block_tokens: int) -> None:
    """The laptop's passes at two block sizes and two capacities: each request hits what it hits in vLLM."""
    plan = plan_passes("docs", 10, 1288, 13, 4, ("first", "again", "reverse"), 1, Prompting("m", "s", 10, 32_000))
    pair = Pair(blocks, block_tokens)
    theirs = []
    for part in plan.passes:
        for one in part.requests:
            admitted = pair.admit(f"{part.name}/{one.seq}", one.tokens.tolist())
            assert admitted is not None
            request, held = admitted
            theirs.append(request.num_cached_tokens)
            pair.answer(request, held, [40_000 + one.seq] * 3)
            pair.free(request, held)
    found = simulate_cache(plan, CacheSpec(blocks, block_tokens), CELL)
    assert [one.local_cached_tokens for one in found.requests] == theirs
    assert sum(theirs) > 0
