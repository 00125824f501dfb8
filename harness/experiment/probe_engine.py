"""Measures an engine that runs: cold prompts for R, hits for T0 and B, what many clients get."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.errors import StackError
from harness.experiment.cache_state import empty_engine, empty_l1, stored_keys
from harness.experiment.probe_points import Evidence, Point, points_of, why_no_hits
from harness.experiment.session import ArmSession
from harness.records import PassCounters, RequestRecord
from harness.schedule import PassPlan, PlannedRequest

_PASS = "probe"  # noqa: S105 - a pass of a run, not a password
_DELIVERED_CLIENTS = 4


@dataclass(frozen=True, slots=True)
class Hits:
    """Hits of an arm: a point each, the bytes and tokens that were counted while they were loaded, and many at once.

    `moved_bytes` came out of the Valkeys for `moved_tokens` tokens (None without Valkeys that answer). `delivered` is
    bytes a second that `clients` requests at once got together.
    """

    points: tuple[Point, ...]
    moved_bytes: int | None
    moved_tokens: int | None
    clients: int
    delivered_bytes_per_s: float | None


async def measure_cold(session: ArmSession, requests: Sequence[PlannedRequest]) -> tuple[Point, ...]:
    """Seconds to the first token of prompts that no cache holds, one at a time. Raises StackError: cached, or busy."""
    return await _cold(session, requests)


async def measure_hits(
    session: ArmSession, requests: Sequence[PlannedRequest], chunk_tokens: int, *, host_tier: bool
) -> Hits:
    """Store the prompts, empty the engine's cache (and L1 unless `host_tier`), and load them again, one at a time.

    Where the engine's cache may not be emptied, only one that keeps nothing can be measured. The last step loads the
    prompts of one length at once. Raises StackError where nothing hits, saying why, or somebody else uses the engine.
    """
    keys = [await stored_keys(session)]
    await _cold(session, requests)
    keys.append(await stored_keys(session))
    await _forget(session, host_tier=host_tier)
    answers, gained = await _alone(session, requests, 1)
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
    whole = [one for one, tokens in zip(records, expected, strict=True) if one.cached_tokens == tokens]
    points = points_of(whole, loaded=True, where=session.stack.url)
    await _forget(session, host_tier=host_tier)
    rate = None if host_tier else await _delivered(session, requests)
    moved = None if host_tier else gained.valkey_bytes_out
    if moved is not None and moved < sum(point.tokens for point in points):
        raise StackError(
            f"the hits came from host memory: {moved:,} bytes left the Valkeys while they were loaded",
            where=session.stack.url,
            remedy="let it keep nothing (store_policy: skip_l1), or of an attached server be emptied (--reset-l1)",
        )
    return Hits(points, moved, gained.external_prefix_cache_hits, _DELIVERED_CLIENTS, rate)


async def _delivered(session: ArmSession, requests: Sequence[PlannedRequest]) -> float | None:
    """Bytes a second out of the Valkeys while several requests load at once; None where they cannot be counted."""
    lengths = sorted({len(request.tokens) for request in requests})
    second = lengths[-2:][0]  # several of the longest may not fit into the engine's cache together
    at_once = [request for request in requests if len(request.tokens) == second]
    records, gained = await _alone(session, at_once, _DELIVERED_CLIENTS)
    moved = gained.valkey_bytes_out
    sent = [record.sent_ns for record in records if record.sent_ns is not None]
    got = [record.first_token_ns for record in records if record.first_token_ns is not None]
    return None if moved is None or not got else moved / ((max(got) - min(sent)) / 1e9)


async def _forget(session: ArmSession, *, host_tier: bool) -> None:
    """Empty what is in front of the tier that is measured, as far as it may be emptied."""
    await session.idle()
    if "engine" in session.stack.resets:
        await empty_engine(session)
    if "l1" in session.stack.resets and not host_tier:
        await empty_l1(session)


async def _cold(session: ArmSession, requests: Sequence[PlannedRequest]) -> tuple[Point, ...]:
    """Prompts that no cache holds, one at a time. Raises StackError where one does."""
    records, gained = await _alone(session, requests, 1)
    hits = gained.prefix_cache_hits or gained.external_prefix_cache_hits
    return points_of(records, loaded=False, counted_hits=hits, where=session.stack.url)


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
    session: ArmSession, requests: Sequence[PlannedRequest], concurrency: int
) -> tuple[tuple[RequestRecord, ...], PassCounters]:
    """Send the prompts; what the counters gained. Raises StackError if they counted tokens that are not ours."""
    before = await session.idle()
    records = await session.send(PassPlan(_PASS, _numbered(requests), concurrency), "machine", 0)
    gained = (await session.idle()).since(before)
    counted = _prompt_tokens(gained)
    ours = [record.prompt_tokens for record in records]
    if counted is not None and all(tokens is not None for tokens in ours):
        others = counted - sum(tokens for tokens in ours if tokens is not None)
        if others > 0:
            raise StackError(
                f"the server is busy: {others:,} prompt tokens of others came while the probe's own were measured",
                where=session.stack.url,
                remedy="probe it while nobody uses it, or another of its kind",
            )
    return records, gained


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
