"""What a probe sends, and what its answers say. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import StackError
from harness.model.placement import EVEN, Placement
from harness.records import Outcome, RequestRecord
from harness.schedule import PlannedRequest, Prompting, prompt_tokens
from harness.schedule.body import closed_loop_request

FEWEST_LENGTHS = 3  # as a curve needs; more copies of them tell more than more of them
TAIL_TOKENS = 13
"""Tokens behind the last whole chunk: always computed, the same for each length, and so part of T0."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measured prompt: tokens that count (computed, or loaded), seconds to the first token, and its placement.

    `slowdown`: what the instance that has most of its chunks makes of a load (model.placement); 1 for computed ones.
    """

    tokens: int
    seconds: float
    slowdown: float = 1.0


def probe_lengths(longest_tokens: int, granule_tokens: int, most_tokens: int | None) -> tuple[int, ...]:
    """Three lengths to measure, in whole granules: a quarter, all, and twice the longest prompt, as far as allowed.

    `most_tokens` bounds a prompt, its tail included. A half, or what else fits, stands in for one that is not allowed.
    """
    whole = max(1, (longest_tokens - 1) // granule_tokens)
    most = 2 * whole if most_tokens is None else (most_tokens - TAIL_TOKENS - 1) // granule_tokens
    wanted = (whole, 2 * whole, -(-whole // 4), -(-whole // 2), *range(1, most + 1))
    fitting = list(dict.fromkeys(min(granules, most) for granules in wanted if min(granules, most) > 0))
    return tuple(granules * granule_tokens for granules in sorted(fitting[:FEWEST_LENGTHS]))


def probe_prompts(prompting: Prompting, lengths: Sequence[int], copies: int) -> tuple[PlannedRequest, ...]:
    """`copies` different prompts of each length and a tail, the lengths in turn, so that drift hits all alike.

    Before them one more of the shortest, which nothing is measured with: what comes first after a pause, or after the
    caches were emptied, takes longer than the others.
    """
    return tuple(
        closed_loop_request(
            prompting,
            prompt_tokens(prompting, [(nth, length + TAIL_TOKENS)]),
            seq=nth,
            row=nth,
            max_tokens=1,
        )
        for nth, length in enumerate((min(lengths), *(length for _ in range(copies) for length in lengths)))
    )


def points_of(
    records: Sequence[RequestRecord],
    *,
    loaded: bool,
    where: str,
    placement: Placement = EVEN,
    counted_hits: int | None = None,
) -> tuple[Point, ...]:
    """The points of answered prompts: tokens the server had cached (`loaded`), or all of a prompt that it had not.

    Where it is not known which instance has which chunk of a loaded prompt, `placement` says what to expect.

    Raises StackError when a request failed, or a prompt was cached that should be cold; `counted_hits` are the
    engine's own count of cached tokens, for answers that do not say.
    """
    failed = [record for record in records if record.outcome is not Outcome.OK]
    if failed:
        raise StackError(
            f"{len(failed)} of {len(records)} probe requests failed, the first with {failed[0].outcome}: "
            f"{failed[0].error}",
            where=where,
            remedy="see vLLM's log; is the prompt within max_model_len?",
        )
    if not loaded and (counted_hits or any(record.cached_tokens for record in records)):
        raise StackError(
            "the probe's prompts were in a cache already: R cannot be measured",
            where=where,
            remedy="use a new seed, or an engine that nobody else uses",
        )
    points = []
    for record in records:
        tokens = record.cached_tokens if loaded else record.prompt_tokens_planned
        if tokens and record.first_token_ns is not None and record.sent_ns is not None:
            known = record.placement_slowdown
            slowdown = placement.slowdown(tokens) if known is None else known
            seconds = (record.first_token_ns - record.sent_ns) / 1e9
            points.append(Point(tokens, seconds, slowdown if loaded else 1.0))
    return tuple(points)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen when prompts were stored, the engine's cache emptied, and the same prompts sent again.

    None where it could not be read. `stored_keys` and `stored_again_keys` count keys that Valkey gained in the first
    and in the second round.
    """

    prompt_tokens: int
    chunk_tokens: int | None
    stored_keys: int | None = None
    stored_again_keys: int | None = None
    local_hits: int | None = None
    external_queries: int | None = None
    external_hits: int | None = None


def why_no_hits(evidence: Evidence, where: str) -> StackError:
    """Why a remote cache never hits, as far as the evidence tells: chunk, engine, connector, store, hash or salt."""
    what, remedy = _why(evidence)
    return StackError(f"the remote cache never hits: {what}", where=where, remedy=remedy)


def _why(e: Evidence) -> tuple[str, str]:
    if e.chunk_tokens is not None and e.prompt_tokens <= e.chunk_tokens:
        return (
            f"a chunk has {e.chunk_tokens} tokens and the prompts {e.prompt_tokens}: no whole chunk is ever stored",
            "use a smaller chunk_size, or longer prompts",
        )
    if e.local_hits:
        return (
            f"vLLM's own cache answered {e.local_hits:,} tokens, so that nobody asked behind it",
            "let the probe empty it: --reset-engine (the server needs VLLM_SERVER_DEV_MODE=1)",
        )
    if e.external_queries == 0:
        return "vLLM never asked a connector", "start it with --kv-transfer-config for LMCache; see its log"
    if e.stored_keys == 0:
        return "nothing was stored in Valkey", "see LMCache's log: store policy, remote URL, save_unfull_chunk"
    if e.stored_keys and e.stored_again_keys and 2 * e.stored_again_keys > e.stored_keys:
        return (
            f"equal prompts got other keys ({e.stored_keys} stored, {e.stored_again_keys} more the second time)",
            "set PYTHONHASHSEED=0 for every process or pre_caching_hash_algorithm: sha256_cbor, and one cache salt",
        )
    return (
        "no Valkey says what was stored" if e.stored_keys is None else "keys are there and lookups do not find them",
        "let all ranks hash alike (PYTHONHASHSEED, pre_caching_hash_algorithm), with one salt; see LMCache's log",
    )
