"""Measures an engine that runs: cold prompts for R, hits for T0 and B, what many clients get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.errors import StackError
from harness.experiment.cache_state import empty_engine, empty_l1, stored_keys
from harness.experiment.probe_points import Evidence, Point, points_of, why_no_hits
from harness.experiment.session import ArmSession
from harness.model.placement import Placement
from harness.records import PassCounters, RequestRecord
from harness.schedule import PassPlan, PlannedRequest

_PASS = "probe"  # noqa: S105 - a pass of a run, not a password
_AT_ONCE = (2, 4)
_LEAST_KV_BYTES = 64  # no model keeps less of a token; what leaves a Valkey besides are replies to INFO


@dataclass(frozen=True, slots=True)
class Hits:
    """Hits of an arm: a point each, the bytes and tokens that were counted while they were loaded, and many at once.

    `moved_bytes` came out of the Valkeys for `moved_tokens` tokens (None without Valkeys that answer).
    `delivered_bytes_per_s` is what so many requests at once got together.
    """

    points: tuple[Point, ...]
    moved_bytes: int | None
    moved_tokens: int | None
    delivered_bytes_per_s: Mapping[int, float]


async def measure_cold(session: ArmSession, requests: Sequence[PlannedRequest]) -> tuple[Point, ...]:
    """Seconds to the first token of prompts that no cache holds, one at a time. Raises StackError: cached, or busy."""
    points, _ = await _cold(session, requests, await session.idle())
    return points[1:]


async def measure_hits(
    session: ArmSession,
    requests: Sequence[PlannedRequest],
    chunk_tokens: int,
    placement: Placement,
    *,
    host_tier: bool,
) -> Hits:
    """Store the prompts, empty the engine's cache (and L1 unless `host_tier`), and load them again, one at a time.

    Where the engine's cache may not be emptied, only one that keeps nothing can be measured. The last step loads the
    prompts of one length at once. Raises StackError where nothing hits, saying why, or somebody else uses the engine.
    """
    keys = [await stored_keys(session)]
    _, before = await _cold(session, requests, await session.idle())
    await session.stored()
    keys.append(await stored_keys(session))
    await forget(session, host_tier=host_tier)
    answers, after = await _alone(session, requests, 1, before)
    gained = after.since(before)
    records = told_by_counters(answers, gained, chunk_tokens)
    keys.append(await stored_keys(session))
    expected = [(len(request.tokens) - 1) // chunk_tokens * chunk_tokens for request in requests]
    if gained.external_prefix_cache_hits and all(record.cached_tokens is None for record in records):
        raise StackError(
            f"{gained.external_prefix_cache_hits:,} tokens were hits, and no answer says which",
            where=session.stack.url,
            remedy="start vLLM with --enable-prompt-tokens-details",
        )
    if not any(record.cached_tokens for record in records) or gained.prefix_cache_hits:
        shortest = min(len(request.tokens) for request in requests)
        raise why_no_hits(_evidence(gained, keys, shortest, chunk_tokens), session.stack.url)
    whole = [one for one, tokens in zip(records[1:], expected[1:], strict=True) if one.cached_tokens == tokens]
    if not whole:
        pairs = [(one.cached_tokens or 0, tokens) for one, tokens in zip(records, expected, strict=True)]
        raise StackError(
            f"no prompt hit whole: {max(pairs)[0]:,} of {max(pairs)[1]:,} tokens were the most",
            where=session.stack.url,
            remedy=f"is LMCache's chunk_size {chunk_tokens}, and is the cache large enough for {len(pairs)} prompts?",
        )
    points = points_of(whole, loaded=True, where=session.stack.url, placement=placement)
    delivered = {} if host_tier else await _delivered(session, requests, after)
    moved = None if host_tier else gained.valkey_bytes_out
    if moved is not None and moved < _LEAST_KV_BYTES * sum(point.tokens for point in points):
        raise StackError(
            f"the hits came from host memory: {moved:,} bytes left the Valkeys while they were loaded",
            where=session.stack.url,
            remedy="let it keep nothing (store_policy: skip_l1), or of an attached server be emptied (--reset-l1)",
        )
    return Hits(points, moved, gained.external_prefix_cache_hits, delivered)


async def _delivered(session: ArmSession, requests: Sequence[PlannedRequest], before: PassCounters) -> dict[int, float]:
    """Bytes a second out of the Valkeys, by how many requests load at once; nothing where they cannot be counted."""
    lengths = sorted({len(request.tokens) for request in requests})
    second = lengths[-2:][0]  # several of the longest may not fit into the engine's cache together
    same = [request for request in requests if len(request.tokens) == second]
    found: dict[int, float] = {}
    for at_once in _AT_ONCE:
        await forget(session, host_tier=False)
        records, after = await _alone(session, same[:at_once], at_once, before)
        moved, before = after.since(before).valkey_bytes_out, after
        sent = [record.sent_ns for record in records if record.sent_ns is not None]
        got = [record.first_token_ns for record in records if record.first_token_ns is not None]
        if moved is not None and got:
            found[at_once] = moved / ((max(got) - min(sent)) / 1e9)
    return found


async def forget(session: ArmSession, *, host_tier: bool) -> None:
    """Empty what is in front of the tier that is measured, as far as it may be emptied; nothing is running."""
    if "engine" in session.stack.resets:
        await empty_engine(session)
    if "l1" in session.stack.resets and not host_tier:
        await empty_l1(session)


async def _cold(
    session: ArmSession, requests: Sequence[PlannedRequest], before: PassCounters
) -> tuple[tuple[Point, ...], PassCounters]:
    """Prompts that no cache holds, one at a time, and the counters afterwards. Raises StackError where one does."""
    records, after = await _alone(session, requests, 1, before)
    gained = after.since(before)
    hits = gained.prefix_cache_hits or gained.external_prefix_cache_hits
    return points_of(records, loaded=False, counted_hits=hits, where=session.stack.url), after


def told_by_counters(
    records: tuple[RequestRecord, ...], gained: PassCounters, chunk_tokens: int
) -> tuple[RequestRecord, ...]:
    """The records, where no answer says how many tokens were cached with that: all whole chunks, if the engine's
    counters gained just these from LMCache and none of its own.
    """
    if any(record.cached_tokens is not None for record in records) or gained.prefix_cache_hits:
        return records
    whole = [(record.prompt_tokens_planned - 1) // chunk_tokens * chunk_tokens for record in records]
    if gained.external_prefix_cache_hits != sum(whole):
        return records
    return tuple(replace(one, cached_tokens=tokens) for one, tokens in zip(records, whole, strict=True))


async def _alone(
    session: ArmSession, requests: Sequence[PlannedRequest], concurrency: int, before: PassCounters
) -> tuple[tuple[RequestRecord, ...], PassCounters]:
    """Send the prompts; their records, and the counters when all is idle again, which were `before` when it last was.

    Raises StackError if the engine meanwhile counted tokens that are not ours.
    """
    records = await session.send(PassPlan(_PASS, _numbered(requests), concurrency), "machine", 0)
    after = await session.idle()
    counted = _prompt_tokens(after.since(before))
    ours = [record.prompt_tokens for record in records]
    if counted is not None and all(tokens is not None for tokens in ours):
        others = counted - sum(tokens for tokens in ours if tokens is not None)
        if others > 0:
            raise StackError(
                f"the server is busy: {others:,} prompt tokens of others came while the probe's own were measured",
                where=session.stack.url,
                remedy="probe it while nobody uses it, or another of its kind",
            )
    return records, after


def _numbered(requests: Sequence[PlannedRequest]) -> tuple[PlannedRequest, ...]:
    """The requests in their order, numbered from 0, as a pass of their own."""
    return tuple(replace(request, seq=seq) for seq, request in enumerate(requests))


def _prompt_tokens(gained: PassCounters) -> int | None:
    by_source = (
        gained.prompt_tokens_local_compute,
        gained.prompt_tokens_local_cache_hit,
        gained.prompt_tokens_external_kv_transfer,
    )
    return None if any(one is None for one in by_source) else sum(one for one in by_source if one is not None)


def _evidence(gained: PassCounters, keys: Sequence[int | None], shortest: int, chunk_tokens: int) -> Evidence:
    gains = [None if old is None or new is None else new - old for old, new in pairwise(keys)]
    return Evidence(
        prompt_tokens=shortest,
        chunk_tokens=chunk_tokens,
        stored_keys=gains[0],
        stored_again_keys=gains[1],
        local_hits=gained.prefix_cache_hits,
        external_queries=gained.external_prefix_cache_queries,
        external_hits=gained.external_prefix_cache_hits,
    )
