"""Cold and warm caches: made so, and proved by a request whose cached tokens the server counts."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx

from harness.collect.valkey_info import flush_valkeys, read_valkeys
from harness.config import Arm, Workload
from harness.errors import StackError
from harness.experiment.session import ArmSession
from harness.experiment.warm_up import require_answers
from harness.schedule import PassPlan, Plan, PlannedRequest

_RESET_TRIES = 50
_UNSAID = "the server did not say how many tokens were cached"
_LET_IT_COUNT = "start vLLM with --enable-prompt-tokens-details, or let its metrics be read"


async def make_cold(
    session: ArmSession, known: PlannedRequest, canary: PlannedRequest, workload: str, repeat: int
) -> None:
    """Empty every cache of the arm and prove it with `known`, a prompt that was in them before.

    What was running before belongs to somebody: nothing of it is emptied, unless the config lets it be. Where not all
    may or can be emptied, nothing is, and the proof is `canary`, a prompt that every run of this seed, workload and
    repeat sends and nobody else: where it is not cached, none of the workload is.

    Raises StackError where it is not proved, as make_warm does, unless the experiment lets such an arm run.
    """
    if not may_empty_all(session):
        cached = await _cached_tokens(session, canary, workload, repeat)
        detail = f"a prompt that every run with this seed sends: {_count(cached)}"
        remedy = "take another seed (--seed), with which no prompt has been sent before"
        _note(session, workload, repeat, kind="cold", proved=cached == 0, detail=detail, remedy=remedy)
        return
    await _empty_all(session)
    cached = await _cached_tokens(session, known, workload, repeat)
    detail = f"a prompt that was cached before the reset: {_count(cached)}"
    remedy = "see the logs of the arm: a cache was not emptied"
    _note(session, workload, repeat, kind="cold", proved=cached == 0, detail=detail, remedy=remedy)
    await session.idle()
    await empty_engine(session)


async def touch_memory(session: ArmSession, requests: tuple[PlannedRequest, ...]) -> None:
    """Send prompts of a warm-up and empty every cache: what LMCache stores first takes longer than ever after.

    Nobody has written to its host memory before, and the system gives it out page by page. Raises StackError.
    """
    require_answers(session, await session.send(PassPlan("warmup", requests, 1), "touch", 0))
    await _empty_all(session)


async def make_warm(session: ArmSession, workload: Workload, plan: Plan, granule_tokens: int, repeat: int) -> None:
    """Send the plan's prewarm pass, empty what `workload.starts` wants empty, and prove what is left.

    The proof is the last prewarmed prompt: as many cached tokens as it has whole chunks, or at least as many where the
    engine's own cache was not emptied. Without LMCache, and with nothing but an emptied L1 behind the engine, it is 0.
    """
    assert plan.prewarm is not None  # noqa: S101 - the caller looked
    state, lmcache = workload.starts, session.arm.lmcache
    keys_before = await stored_keys(session)
    await session.send(plan.prewarm, plan.workload, repeat)
    await session.idle()
    await session.stored()
    last = plan.prewarm.requests[-1]
    resets = session.stack.resets if state != "warm-all" else frozenset[str]()
    keeps_l1 = lmcache is not None and lmcache.store_policy == "default"
    if "engine" in resets:
        await empty_engine(session)
    if "l1" in resets and (state == "warm-l2" or not keeps_l1):
        await empty_l1(session)
    cached = await _cached_tokens(session, last, plan.workload, repeat)
    held = state == "warm-all" or (lmcache is not None and (session.arm.valkey is not None or state == "warm"))
    expected = (len(last.tokens) - 1) // granule_tokens * granule_tokens if held else 0
    enough = cached is not None and (cached == expected if "engine" in resets else cached >= expected)
    keys = await stored_keys(session)
    stored = "" if keys is None or keys_before is None else f", {keys - keys_before} keys stored in Valkey"
    detail = f"a prewarmed prompt: {_count(cached)} of {expected} expected{stored}"
    remedy = "see LMCache's log; is the chunk larger than what prompts share, or a cache too small for all of them?"
    _note(session, plan.workload, repeat, kind=state, proved=enough, detail=detail, remedy=remedy)
    await session.idle()
    if "engine" in resets:
        await empty_engine(session)
    if "l1" in resets and state == "warm-l2":
        await empty_l1(session)


def may_empty_all(session: ArmSession) -> bool:
    """Whether all the caches that the arm has may, and can, be emptied."""
    return tiers(session.arm, session.stack.valkey_urls) <= session.stack.resets


def tiers(arm: Arm, valkey_urls: Sequence[str]) -> frozenset[str]:
    """The caches that an arm has."""
    has = {"engine": True, "l1": arm.lmcache is not None, "valkey": arm.valkey is not None or bool(valkey_urls)}
    return frozenset(name for name, there in has.items() if there)


def _count(cached: int | None) -> str:
    return _UNSAID if cached is None else f"{cached} cached tokens"


def _note(
    session: ArmSession, workload: str, repeat: int, *, kind: str, proved: bool, detail: str, remedy: str
) -> None:
    proof: dict[str, Any] = {"arm": session.arm.name, "workload": workload, "repeat": repeat}
    remedy = _LET_IT_COUNT if _UNSAID in detail else remedy
    session.place.proofs.append({**proof, "kind": kind, "proved": proved, "detail": detail, "remedy": remedy})
    if not proved and session.place.fail_unproved:
        raise StackError(
            f"the caches were not shown to be {kind} at the start of {workload}: {detail}",
            where=f"arm {session.arm.name}: {session.stack.url}",
            remedy=f"{remedy}; or write `on_unproved: caveat`",
        )


async def _cached_tokens(session: ArmSession, known: PlannedRequest, workload: str, repeat: int) -> int | None:
    """What the server says it had cached of `known`; None if it did not say. Raises StackError if it did not answer.

    A server that does not count in its answers (vLLM without --enable-prompt-tokens-details) may do so in its counters.
    """
    before = await session.idle()
    records = await session.send(PassPlan("probe", (known,), 1), workload, repeat)
    require_answers(session, records)
    if records[0].cached_tokens is not None:
        return records[0].cached_tokens
    gained = (await session.idle()).since(before)
    hits = gained.prefix_cache_hits, gained.external_prefix_cache_hits
    return None if hits[0] is None else hits[0] + (hits[1] or 0)


async def _empty_all(session: ArmSession) -> None:
    await session.idle()
    await empty_engine(session)
    await empty_l1(session)
    await flush_valkeys(session.stack.valkey_urls, absent_ok=session.may_lose_valkeys)


async def empty_engine(session: ArmSession) -> None:
    """vLLM's own prefix cache, of every engine: refused while blocks are held, so asked until it is done.

    Raises StackError.
    """
    for engine in session.stack.engines:
        url = f"{engine.url}/reset_prefix_cache"
        for _ in range(_RESET_TRIES):
            if (await _post(session, url)).json().get("success"):
                break
            await asyncio.sleep(0.1)
        else:
            raise StackError(
                "vLLM does not empty its prefix cache: blocks are still held", where=url, remedy="see vLLM's log"
            )


async def empty_l1(session: ArmSession) -> None:
    """LMCache's host tier, of every engine, where it can be asked. Raises StackError."""
    for engine in session.stack.engines:
        if engine.lmcache_url is not None:
            await _post(session, f"{engine.lmcache_url}/cache/clear")


async def _post(session: ArmSession, url: str) -> httpx.Response:
    try:
        response = await session.http.post(url)
        response.raise_for_status()
    except httpx.HTTPError as error:
        raise StackError(f"a reset was refused: {error}", where=url, remedy="see the service's log") from error
    return response


async def stored_keys(session: ArmSession) -> int | None:
    """Keys in all Valkeys of the arm together; None without one, or where one does not answer."""
    readings = await read_valkeys(session.stack.valkey_urls)
    if not readings or any(reading is None for reading in readings):
        return None
    return sum(reading.keys for reading in readings if reading is not None)
