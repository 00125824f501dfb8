"""Where the TTFT of one request went, out of what client, engine and LMCache told. docs/method.md defines the parts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of one request, in ms; None where nobody said.

    `ttft_ms` sent -> first token, `accepted_ms` sent -> response headers: by the client. `server_queue_ms` in the
    engine's queue -> first step that had it, `server_prefill_ms` from there -> first token: by the engine.
    `lookup_ms` LMCache's prefetch, submitted -> seen to be complete, and `own_lookup_ms` what of that served this
    request alone; `load_ms` what its log says of copying into the engine. `in_step`: loads happen inside the engine's
    steps (in-process LMCache), and hold up all that wait or run; then `others_before_ms`, `others_in_queue_ms` and
    `others_in_step_ms` are loads of other requests before the engine took this one into its queue, while it was there
    (its own lookup left out), and in the steps that had it. `idle_delivery_ms` is the way of a token of this arm when
    nothing else runs.
    """

    ttft_ms: float
    accepted_ms: float | None = None
    server_queue_ms: float | None = None
    server_prefill_ms: float | None = None
    lookup_ms: float | None = None
    own_lookup_ms: float | None = None
    load_ms: float | None = None
    others_before_ms: float = 0.0
    others_in_queue_ms: float = 0.0
    others_in_step_ms: float = 0.0
    in_step: bool = False
    idle_delivery_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a TTFT, ms: their sum is the TTFT, `unexplained_ms` being what is left. None: not told, or none.

    `unexplained_ms` may be negative, where parts that were told overlap.
    """

    queue_ms: float | None
    load_wait_ms: float | None
    load_ms: float | None
    recompute_ms: float | None
    delivery_ms: float | None
    unexplained_ms: float

    @property
    def total_ms(self) -> float:
        """The sum of the parts."""
        parts = (self.queue_ms, self.load_wait_ms, self.load_ms, self.recompute_ms, self.delivery_ms)
        return sum(part for part in parts if part is not None) + self.unexplained_ms


def attribute(told: Told) -> Parts:
    """Divide a TTFT into its parts; nothing that nobody told is divided among them."""
    queue, recompute = told.server_queue_ms, told.server_prefill_ms
    wait = None if told.lookup_ms is None else told.lookup_ms - (told.own_lookup_ms or 0.0)
    load = _sum(None if told.lookup_ms is None else told.own_lookup_ms, told.load_ms)
    if told.in_step:
        wait = _sum(wait, told.others_before_ms, told.others_in_queue_ms, told.others_in_step_ms)
        queue = _less(queue, told.lookup_ms, told.others_in_queue_ms)
        recompute = _less(recompute, told.load_ms, told.others_in_step_ms)
    else:
        queue = _less(queue, told.lookup_ms, told.load_ms)
    delivery = _sum(told.accepted_ms, told.idle_delivery_ms)
    known = sum(part for part in (queue, wait, load, recompute, delivery) if part is not None)
    return Parts(queue, wait, load, recompute, delivery, told.ttft_ms - known)


def idle_delivery_ms(alone: list[Told]) -> float | None:
    """The median of what queue, prefill and acceptance leave of the TTFT of requests that nothing else ran beside.

    None if no such request was told of.
    """
    rests = sorted(
        told.ttft_ms - told.accepted_ms - told.server_queue_ms - told.server_prefill_ms
        for told in alone
        if told.accepted_ms is not None and told.server_queue_ms is not None and told.server_prefill_ms is not None
    )
    if not rests:
        return None
    middle = len(rests) // 2
    return max(0.0, rests[middle] if len(rests) % 2 else (rests[middle - 1] + rests[middle]) / 2)


def _sum(*parts: float | None) -> float | None:
    present = [part for part in parts if part is not None]
    return sum(present) if present else None


def _less(whole: float | None, *parts: float | None) -> float | None:
    """What is left of `whole`; never below 0: what does not fit into it shows as unexplained."""
    return None if whole is None else max(0.0, whole - sum(part for part in parts if part is not None))
