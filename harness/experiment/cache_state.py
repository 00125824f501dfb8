"""Cold and warm caches: made so, and proved by a request whose cached tokens the server counts."""

import asyncio
from typing import Any

import httpx

from harness.collect.valkey_info import flush_valkeys, read_valkeys
from harness.errors import StackError
from harness.experiment.session import ArmSession
from harness.schedule import PassPlan, Plan, PlannedRequest

_RESET_TRIES = 50


async def make_cold(
    session: ArmSession, known: PlannedRequest, canary: PlannedRequest, workload: str, repeat: int
) -> None:
    """Empty every cache of the arm and prove it with `known`, a prompt that was in them before.

    Attached servers belong to somebody: nothing of theirs is emptied. There the proof is `canary`, a prompt that every
    run of this seed, workload and repeat sends and nobody else: where it is not cached, none of the workload is.
    """
    if not session.stack.processes:
        cached = await _cached_tokens(session, canary, workload, repeat)
        detail = f"a prompt that every run with this seed sends: {cached} cached tokens"
        _note(session, workload, repeat, kind="cold", proved=cached == 0, detail=detail)
        return
    await session.idle()
    await empty_engine(session)
    await empty_l1(session)
    await flush_valkeys(session.stack.valkey_urls)
    cached = await _cached_tokens(session, known, workload, repeat)
    detail = f"a prompt that was cached before the reset: {cached} cached tokens"
    _note(session, workload, repeat, kind="cold", proved=cached == 0, detail=detail)
    await session.idle()
    await empty_engine(session)


async def make_warm(session: ArmSession, plan: Plan, granule_tokens: int, repeat: int) -> None:
    """Send the plan's prewarm pass, empty the engine's own cache, and prove what the tiers behind it hold.

    Without LMCache nothing is behind it: the proof is then that nothing is cached. In L1 only what stays there by
    policy stays: with `skip_l1` it is emptied, so that every hit comes from Valkey.
    """
    assert plan.prewarm is not None  # noqa: S101 - the caller looked
    keys_before = await stored_keys(session)
    await session.send(plan.prewarm, plan.workload, repeat)
    await session.idle()
    last = plan.prewarm.requests[-1]
    if session.stack.processes:
        await empty_engine(session)
        if session.arm.lmcache is not None and session.arm.lmcache.store_policy == "skip_l1":
            await empty_l1(session)
    cached = await _cached_tokens(session, last, plan.workload, repeat)
    expected = (len(last.tokens) - 1) // granule_tokens * granule_tokens if session.arm.lmcache is not None else 0
    keys = await stored_keys(session)
    stored = "" if keys is None or keys_before is None else f", {keys - keys_before} keys stored in Valkey"
    detail = f"a prewarmed prompt: {cached} cached tokens of {expected} expected{stored}"
    _note(session, plan.workload, repeat, kind="warm", proved=cached == expected, detail=detail)
    await session.idle()
    if session.stack.processes:
        await empty_engine(session)


def _note(session: ArmSession, workload: str, repeat: int, *, kind: str, proved: bool, detail: str) -> None:
    proof: dict[str, Any] = {"arm": session.arm.name, "workload": workload, "repeat": repeat}
    session.place.proofs.append({**proof, "kind": kind, "proved": proved, "detail": detail})


async def _cached_tokens(session: ArmSession, known: PlannedRequest, workload: str, repeat: int) -> int | None:
    """What the server says it had cached of `known`; None if it did not answer with a count."""
    records = await session.send(PassPlan("probe", (known,), 1), workload, repeat)
    return records[0].cached_tokens


async def empty_engine(session: ArmSession) -> None:
    """vLLM's own prefix cache: refused while blocks are held, so asked until it is done. Raises StackError."""
    url = f"{session.stack.url}/reset_prefix_cache"
    for _ in range(_RESET_TRIES):
        if (await _post(session, url)).json().get("success"):
            return
        await asyncio.sleep(0.1)
    raise StackError("vLLM does not empty its prefix cache: blocks are still held", where=url, remedy="see vLLM's log")


async def empty_l1(session: ArmSession) -> None:
    """LMCache's host tier, if there is one. Raises StackError when it refuses."""
    if session.stack.lmcache_url is not None:
        await _post(session, f"{session.stack.lmcache_url}/cache/clear")


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
