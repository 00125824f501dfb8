"""The plan through the caches, without a clock: which tokens of which request hit where."""

from collections import deque
from collections.abc import Iterator

from harness.records import Cell, ServerSample
from harness.schedule import PassPlan, Plan
from harness.sim.block_pool import Held
from harness.sim.caches import Caches, CacheSpec
from harness.sim.simulated import Served, Simulated, bytes_samples, gathered, of_pass, request_record


def simulate_cache(plan: Plan, spec: CacheSpec, cell: Cell) -> Simulated:
    """Every request of `plan` in order, the prewarm first, after which vLLM's own cache is emptied as a run does.

    A closed loop keeps `concurrency` requests in flight, the oldest ending first; an open loop is taken one request at
    a time, since without a clock nobody knows which overlap (sim.queue knows). A prompt can be hit from the moment
    it is computed, its answer's blocks from its end on. Records have no stamps; their `due_ns` is the plan's, or 0.

    Raises ValueError where a request does not fit into vLLM's cache.
    """
    spec.refuse_too_small(plan)
    caches = Caches(spec)
    if plan.prewarm is not None:
        for _ in _serve(plan.prewarm, caches):
            pass
        caches.pool.forget()
    passes = []
    samples: list[ServerSample] = []
    for part in plan.passes:
        here = of_pass(cell, part.name)
        served = list(_serve(part, caches))
        passes.append((here, served, [request_record(one, here, one.request.due_ns or 0) for one in served], 0.0))
        if caches.tiers is not None and caches.tiers.remote is not None:
            samples += bytes_samples(here, 0, caches.tiers.remote.bytes_held())
    return gathered(passes, None if spec.lmcache is None else spec.lmcache.chunk_tokens, samples)


def _serve(part: PassPlan, caches: Caches) -> Iterator[Served]:
    """Each request as it is admitted; those in flight end in the order in which they began."""
    flight: deque[tuple[Served, Held]] = deque()
    for request in part.requests:
        if len(flight) == (part.concurrency or 1):
            _end(*flight.popleft(), caches)
        prompt = caches.prompt(request)
        while True:
            hit = caches.hit(prompt, caches.find(prompt))
            held = caches.pool.admit(prompt.blocks, hit.blocks, prompt.tokens, prompt.tokens)
            if held is not None:
                break
            _end(*flight.popleft(), caches)
        served = Served(request, prompt, hit)
        caches.pool.publish(held, prompt.tokens)
        _move(served, caches)
        flight.append((served, held))
        yield served
    for one in flight:
        _end(*one, caches)


def _move(served: Served, caches: Caches) -> None:
    """What LMCache fetches for a request, and stores of it once its prompt is computed."""
    if caches.tiers is None:
        return
    hit, chunks = served.hit, served.prompt.chunks
    fetched = caches.tiers.fetched(hit.found, hit.local_tokens)
    parts = caches.tiers.parts(chunks, fetched)
    served.remote_keys, served.remote_bytes = len(parts), sum(part.bytes for part in parts)
    caches.tiers.use(chunks, hit.found, fetched)
    caches.tiers.store(chunks, hit.found)


def _end(served: Served, held: Held, caches: Caches) -> None:
    """The answer's blocks, as far as there is room for them, then the end; the host tier's sweep comes by."""
    tokens = served.prompt.tokens + served.request.max_tokens - 1
    if caches.pool.grow(held, tokens):
        caches.pool.publish(held, tokens)
    caches.pool.release(held)
    if caches.tiers is not None:
        caches.tiers.store_answer(served.prompt.chunks, tokens)
        if caches.tiers.host is not None:
            caches.tiers.host.sweep()
