"""The most that any prefix cache could hit: one that keeps every whole granule of every prompt for ever."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from harness.schedule import PassPlan
from harness.sim.keys import prefix_keys


def infinite_cache_hits(
    passes: Sequence[PassPlan], granule_tokens: int, prewarm: PassPlan | None
) -> dict[tuple[str, int], int]:
    """By (pass name, seq): how many leading tokens of each prompt the cache holds when the request comes.

    A granule (vLLM's block, LMCache's chunk) is stored whole or not at all, and under its prefix: it hits only behind
    the same tokens. Requests come in the plan's order, the prewarm first; generated tokens are not stored. At least the
    last token of a prompt is computed (vLLM, `KVCacheManager.get_computed_blocks`): a hit is the largest multiple of
    `granule_tokens` that is held and is below the prompt's length. Raises ValueError if `granule_tokens` is below 1.
    """
    if granule_tokens < 1:
        raise ValueError(f"granule_tokens is {granule_tokens}: at least 1")
    held: set[bytes] = set()
    hits: dict[tuple[str, int], int] = {}
    for part in (*((prewarm,) if prewarm else ()), *passes):
        for request in part.requests:
            keys = list(prefix_keys(request.tokens, granule_tokens))
            run = next((i for i, key in enumerate(keys) if key not in held), len(keys))
            hits[part.name, request.seq] = min(run, (len(request.tokens) - 1) // granule_tokens) * granule_tokens
            held.update(keys)
    measured = {part.name for part in passes}
    return {place: tokens for place, tokens in hits.items() if place[0] in measured}


def mean_hit_tokens(hits: Mapping[tuple[str, int], int]) -> dict[str, float]:
    """Mean hit tokens a request, by pass name."""
    by_pass: dict[str, list[int]] = defaultdict(list)
    for (name, _), tokens in hits.items():
        by_pass[name].append(tokens)
    return {name: sum(tokens) / len(tokens) for name, tokens in by_pass.items()}


def stored_tokens(part: PassPlan, granule_tokens: int) -> int:
    """The tokens that a pass leaves in the cache: those of all different whole granules of its prompts."""
    return granule_tokens * len(
        {key for request in part.requests for key in prefix_keys(request.tokens, granule_tokens)}
    )
