"""The trace workload: every row at its own time, and the prompts that fill the caches with what rows share."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.schedule.body import closed_loop_request, encode_body
from harness.schedule.plan import PassPlan, Plan, PlannedRequest
from harness.schedule.tokens import Prompting, prompt_tokens
from harness.trace import Trace, TraceRequest

PREWARM_TAIL_TOKENS = 4

_Part = tuple[int, int]


def plan_trace(
    name: str, trace: Trace, prompting: Prompting, *, prewarm: bool, whole: Trace | None = None, turns_wait: bool = True
) -> Plan:
    """One open-loop pass named `replay`: each request is due at its arrival, `seq` and `row` in order of arrival.

    With `turns_wait`, a turn that has a delay is due that long after the turn before it in the trace has ended; the
    first one of a session that is left, and every turn without a delay, is due at its arrival. Equal blocks have equal
    tokens; what lies behind a row's last block has no id and is its own. With `prewarm`, a pass of that name sends
    every distinct prefix that several requests share, once, one at a time, for one token. The prefix of a request is
    its longest run of leading blocks with which another one starts too; one that starts another is sent with it. A
    tail of `PREWARM_TAIL_TOKENS` tokens of its own follows each. Of a trace cut short, `whole` is the trace before the
    cut: what is shared there is shared, though only prefixes of the rows left are sent.
    """
    # Ids behind those of the blocks: one for the end of each row, then one for each prewarming request.
    free = 1 + max((block for request in trace.requests for block in request.blocks), default=-1)
    requests = []
    last_turn: dict[str, int] = {}
    for seq, request in enumerate(trace.requests):
        after = last_turn.get(request.session) if turns_wait and request.delay_us is not None else None
        if request.session:
            last_turn[request.session] = seq
        parts = _parts(request, trace.block_size)
        rest = request.input_tokens - sum(count for _, count in parts)
        tokens = prompt_tokens(prompting, [*parts, (free + seq, rest)] if rest else parts)
        requests.append(
            PlannedRequest(
                seq=seq,
                row=request.row,
                session=request.session,
                due_ns=request.arrival_us * 1000 if after is None else None,
                tokens=tokens,
                max_tokens=request.output_tokens,
                body=encode_body(prompting, tokens, request.output_tokens),
                after=after,
                gap_ns=(request.delay_us or 0) * 1000 if after is not None else 0,
            )
        )
    warm = _prewarm(trace, whole or trace, prompting, free + len(requests)) if prewarm else None
    return Plan.of(name, (PassPlan("replay", tuple(requests), None),), warm)


@dataclass(slots=True)
class _Prefix:
    """A node of the tree of prefixes: how many requests start with it, and what continues it."""

    requests: int = 0
    longer: "dict[int, _Prefix]" = field(default_factory=dict)


def _prewarm(trace: Trace, whole: Trace, prompting: Prompting, free: int) -> PassPlan:
    requests = tuple(
        closed_loop_request(
            prompting,
            prompt_tokens(prompting, [*parts, (free + seq, PREWARM_TAIL_TOKENS)]),
            seq=seq,
            row=row,
            max_tokens=1,
        )
        for seq, (row, parts) in enumerate(_shared_prefixes(trace, whole))
    )
    return PassPlan("prewarm", requests, 1)


def _shared_prefixes(trace: Trace, whole: Trace) -> Iterator[tuple[int, list[_Part]]]:
    """Each maximal prefix shared in `whole`, with the row of the first request of `trace` that has it, in order."""
    root = _Prefix()
    for request in whole.requests:
        node = root
        for block in request.blocks:
            node = node.longer.setdefault(block, _Prefix())
            node.requests += 1
    sent: set[int] = set()
    for request in trace.requests:
        node, length = root, 0
        for block in request.blocks:
            if node.longer[block].requests < 2:
                break
            node, length = node.longer[block], length + 1
        starts_another = any(longer.requests >= 2 for longer in node.longer.values())
        if length and not starts_another and id(node) not in sent:
            sent.add(id(node))
            yield request.row, _parts(request, trace.block_size)[:length]


def _parts(request: TraceRequest, block_size: int) -> list[_Part]:
    """A request's blocks with how many of its tokens each covers: the last one perhaps in part."""
    return [
        (block, min(block_size, request.input_tokens - position * block_size))
        for position, block in enumerate(request.blocks)
    ]
