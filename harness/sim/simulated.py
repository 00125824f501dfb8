"""What a simulation gives back: the records that a live run gives, with source "sim"."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.records import Cell, LoadEvent, Outcome, PassCounters, PassRecord, RequestRecord, ServerSample
from harness.schedule import PlannedRequest
from harness.sim.caches import Hit, Prompt

VERSION = "sim"


@dataclass(frozen=True, slots=True)
class TierTokens:
    """Where the cached tokens of one request are: in vLLM's own cache, in LMCache's host tier, in the remote tier."""

    pass_name: str
    seq: int
    gpu: int
    host: int
    remote: int


@dataclass(frozen=True, slots=True)
class Simulated:
    """Records of every request of every measured pass, what LMCache moved for them, series, and sums by pass.

    `tiers` has one entry a request, in the order of `requests`.
    """

    requests: tuple[RequestRecord, ...]
    loads: tuple[LoadEvent, ...]
    samples: tuple[ServerSample, ...]
    passes: tuple[PassRecord, ...]
    tiers: tuple[TierTokens, ...]


@dataclass(slots=True)
class Served:
    """A request that was served: what it hit, and how many keys and bytes came from the remote tier for it."""

    request: PlannedRequest
    prompt: Prompt
    hit: Hit
    remote_keys: int = 0
    remote_bytes: float = 0.0

    @property
    def cached_tokens(self) -> int:
        """Local and external, as the server counts them."""
        return self.hit.local_tokens + self.hit.external_tokens


def tier_tokens(served: Served, cell: Cell, chunk_tokens: int) -> TierTokens:
    """The split of a request's cached tokens."""
    hit = served.hit
    host = hit.tokens_of(hit.found.host, chunk_tokens)
    return TierTokens(cell.pass_name, served.request.seq, hit.local_tokens, host, hit.external_tokens - host)


def gathered(
    passes: Sequence[tuple[Cell, Sequence[Served], Sequence[RequestRecord], float]],
    chunk_tokens: int | None,
    samples: Iterable[ServerSample],
) -> Simulated:
    """All of it, from (cell, requests served, their records, seconds) of each pass; no chunk: no LMCache."""
    events: list[LoadEvent] = []
    tiers: list[TierTokens] = []
    for cell, served, _, _ in passes:
        for one in served:
            tiers.append(tier_tokens(one, cell, chunk_tokens or 1))
            event = None if chunk_tokens is None else load_event(one, cell, chunk_tokens)
            events += [] if event is None else [event]
    return Simulated(
        tuple(record for _, _, records, _ in passes for record in records),
        tuple(events),
        tuple(samples),
        tuple(pass_record(cell, served, s, behind=chunk_tokens is not None) for cell, served, _, s in passes),
        tuple(tiers),
    )


def request_record(served: Served, cell: Cell, due_ns: int) -> RequestRecord:
    """The record without stamps: that of a request whose times nobody simulated."""
    request = served.request
    return RequestRecord(
        cell=cell,
        seq=request.seq,
        row=request.row,
        session=request.session,
        prompt_tokens_planned=served.prompt.tokens,
        max_tokens=request.max_tokens,
        due_ns=due_ns,
        outcome=Outcome.OK,
        source="sim",
        prompt_tokens=served.prompt.tokens,
        completion_tokens=request.max_tokens,
        cached_tokens=served.cached_tokens,
        local_cached_tokens=served.hit.local_tokens,
        external_cached_tokens=served.hit.external_tokens,
    )


def load_event(served: Served, cell: Cell, chunk_tokens: int) -> LoadEvent | None:
    """What LMCache's log would say of the lookup: chunks by tier; None of a full miss, of which it says nothing."""
    found = served.hit.found
    if not found.tokens:
        return None
    return LoadEvent(
        arm=cell.arm,
        repeat=cell.repeat,
        t_unix_ns=cell.t0_unix_ns,
        instance="lmcache",
        version=VERSION,
        kind="prefetch",
        line="",
        line_no=0,
        file="",
        request_id=cell.request_id(served.request.seq),
        seq=served.request.seq,
        tokens=len(served.prompt.chunks) * chunk_tokens,
        hit_tokens=found.tokens,
        keys=len(served.prompt.chunks),
        l1_keys=len(found.host),
        l2_keys=len(found.remote),
        bytes=round(served.remote_bytes),
    )


def pass_record(cell: Cell, served: Sequence[Served], duration_s: float, *, behind: bool) -> PassRecord:
    """The counters that the engine and Valkey would have gained; `behind`: LMCache is there."""
    prompts = sum(one.prompt.tokens for one in served)
    local = sum(one.hit.local_tokens for one in served)
    external = sum(one.hit.external_tokens for one in served)
    counters = PassCounters(
        prefix_cache_queries=prompts,
        prefix_cache_hits=local,
        external_prefix_cache_queries=prompts - local if behind else 0,
        external_prefix_cache_hits=external,
        prompt_tokens_local_compute=prompts - local - external,
        prompt_tokens_local_cache_hit=local,
        prompt_tokens_external_kv_transfer=external,
        valkey_get_calls=sum(one.remote_keys for one in served),
        valkey_bytes_out=round(sum(one.remote_bytes for one in served)),
    )
    return PassRecord(cell.arm, cell.workload, cell.pass_name, cell.repeat, len(served), duration_s, counters)


def of_pass(cell: Cell, name: str) -> Cell:
    """The cell of another pass of the same arm, workload and repeat."""
    return replace(cell, pass_name=name)


def bytes_samples(cell: Cell, t_ns: int, held: Iterable[float]) -> list[ServerSample]:
    """What each Valkey instance holds, as its INFO would say (without what Valkey needs for itself)."""
    return [
        ServerSample(cell.arm, cell.repeat, t_ns, "valkey", f"valkey-{i}", "used_memory_dataset", float(size))
        for i, size in enumerate(held)
    ]
