"""Every cache that a prompt can be found in: vLLM's own, and LMCache's tiers behind it."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.schedule import Plan, PlannedRequest
from harness.sim.block_pool import Block, BlockPool
from harness.sim.keys import CHUNK_KEYS, Key, prefix_keys
from harness.sim.lmcache import NOTHING, Found, LMCacheSpec, LMCacheTiers


@dataclass(frozen=True, slots=True)
class CacheSpec:
    """vLLM's `blocks` of `block_tokens` tokens (the null block included), and LMCache if it is there.

    `caching` is whether vLLM finds anything in its blocks again (its prefix cache).
    """

    blocks: int
    block_tokens: int
    lmcache: LMCacheSpec | None = None
    caching: bool = True

    def costs(self, longest_prompt_tokens: int) -> list[str]:
        """What sizes that do not fit one another cost, in words; nothing where they do."""
        if self.lmcache is None:
            return []
        chunk, prompt = self.lmcache.chunk_tokens, longest_prompt_tokens // self.lmcache.chunk_tokens
        said = []
        if chunk % self.block_tokens:
            said.append(
                f"chunks of {chunk} tokens are not whole blocks of {self.block_tokens}: what LMCache loads ends inside "
                f"a block, so that up to {min(chunk, self.block_tokens) - 1} tokens that vLLM holds are loaded again, "
                "or stay out of its whole blocks"
            )
        rooms = {"host memory": self.lmcache.host_chunks, "the remote tier": self.lmcache.remote_chunks}
        for tier, room in rooms.items():
            if room is not None and room < prompt:
                said.append(f"{tier} holds {room:.0f} chunks, and the longest prompt has {prompt}: it never hits whole")
        return said

    def refuse_too_small(self, plan: Plan) -> None:
        """Raises ValueError where a request of `plan`, its answer included, never fits into vLLM's cache."""
        pool = BlockPool(self.blocks, self.block_tokens)
        for part in (*((plan.prewarm,) if plan.prewarm else ()), *plan.passes):
            for request in part.requests:
                tokens = len(request.tokens) + request.max_tokens - 1
                if not pool.fits(tokens):
                    raise ValueError(
                        f"request {request.seq} of pass {part.name} needs {tokens} tokens, its answer included; vLLM's "
                        f"cache holds {pool.usable_blocks * self.block_tokens}"
                    )


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as the caches see it: how many tokens, the keys of its whole blocks and of its whole chunks."""

    tokens: int
    blocks: tuple[Key, ...]
    chunks: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """What a prompt finds: vLLM's blocks, LMCache's chunks, and the tokens that the one and the other spare it."""

    blocks: Sequence[Block]
    found: Found
    local_tokens: int
    external_tokens: int

    def tokens_of(self, places: Sequence[int], chunk_tokens: int) -> int:
        """How many of the external tokens are in the chunks at these places."""
        first, last = self.local_tokens, self.local_tokens + self.external_tokens
        return sum(max(0, min((one + 1) * chunk_tokens, last) - max(one * chunk_tokens, first)) for one in places)


class Caches:
    """vLLM's block pool and LMCache's tiers of one engine."""

    def __init__(self, spec: CacheSpec) -> None:
        self.spec = spec
        self.pool = BlockPool(spec.blocks, spec.block_tokens, caching=spec.caching)
        self.tiers = None if spec.lmcache is None else LMCacheTiers(spec.lmcache)

    def prompt(self, request: PlannedRequest) -> Prompt:
        """The keys of a request's prompt."""
        tokens, spec = request.tokens, self.spec
        blocks = tuple(prefix_keys(tokens, spec.block_tokens))
        if spec.lmcache is None:
            return Prompt(len(tokens), blocks, ())
        chunks = CHUNK_KEYS[spec.lmcache.hashing](tokens, spec.lmcache.chunk_tokens)
        return Prompt(len(tokens), blocks, tuple(chunks))

    def find(self, prompt: Prompt) -> Found:
        """What LMCache's tiers have of it."""
        return NOTHING if self.tiers is None else self.tiers.find(prompt.chunks)

    def hit(self, prompt: Prompt, found: Found) -> Hit:
        """What vLLM has of it now, and what LMCache adds; at least the last token is computed."""
        blocks = self.pool.hits(prompt.blocks, prompt.tokens)
        local = len(blocks) * self.spec.block_tokens
        return Hit(blocks, found, local, max(0, min(found.tokens, prompt.tokens - 1) - local))
