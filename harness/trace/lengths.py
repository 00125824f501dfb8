"""Traces with other lengths, and those that fit a server. Pure; prompts that share a prefix go on sharing it."""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from harness.errors import TraceError
from harness.trace.request import Trace, TraceRequest
from harness.trace.reuse import PrefixTree

OverLength = Literal["fail", "drop", "clip-output"]


def scale_lengths(trace: Trace, ratio: Fraction) -> Trace:
    """The trace with every length times `ratio`.

    Whole blocks scale exactly, so prompts share the same part of themselves as before; the tail behind the last whole
    block and the output are rounded half up, to at least one token. Raises TraceError, with the nearest ratios that
    work, unless `block_size` times `ratio` is a whole number.
    """
    scaled = trace.block_size * ratio
    if ratio <= 0 or scaled.denominator != 1:
        near = sorted({max(1, math.floor(scaled)), max(1, math.ceil(scaled))})
        raise TraceError(
            f"length_scale {ratio} makes a block of {trace.block_size} tokens {float(scaled):g} tokens long",
            where=trace.source,
            remedy=f"use {' or '.join(f'{size}/{trace.block_size}' for size in near)}, or give a chunk",
        )

    def resized(request: TraceRequest) -> TraceRequest:
        whole, tail = divmod(request.input_tokens, trace.block_size)
        return replace(
            request,
            input_tokens=whole * int(scaled) + _at_least_one(tail, ratio),
            output_tokens=_at_least_one(request.output_tokens, ratio),
        )

    return replace(trace, block_size=int(scaled), requests=tuple(map(resized, trace.requests)))


def scale_to_chunks(trace: Trace, ratio: Fraction, chunk_tokens: int) -> Trace:
    """The trace with every length times `ratio`, in blocks of `chunk_tokens`: what prompts share is then whole chunks.

    A prefix of n tokens in whole blocks becomes round(n ratio / chunk_tokens) chunks, the same for every prompt that
    has it; two prompts share exactly the chunks of the blocks they shared. A last block in part stays shared where it
    was. The tail and the output are rounded half up, to at least one token; a prompt of fewer tokens than half a chunk
    is one tail. Raises TraceError for a ratio that is not above zero or a chunk below 1.
    """
    if ratio <= 0 or chunk_tokens < 1:
        raise TraceError(
            f"length_scale is {ratio} to chunks of {chunk_tokens}", where=trace.source, remedy="both must be above zero"
        )
    tree = PrefixTree()
    names: dict[tuple[int, int], int] = {}

    def chunks_of(prefix_blocks: int) -> int:
        return _half_up(prefix_blocks * trace.block_size * ratio / chunk_tokens)

    def named(request: TraceRequest) -> Iterator[tuple[int, int]]:
        """Of each chunk: the source's prefix that it belongs to, and which of that prefix's chunks it is."""
        for position, prefix in enumerate(tree.walk(request.blocks)):
            tail = request.input_tokens - position * trace.block_size
            if tail >= trace.block_size:
                chunks = chunks_of(position + 1) - chunks_of(position)
            else:
                chunks = -(-_at_least_one(tail, ratio) // chunk_tokens)
            yield from ((prefix, nth) for nth in range(chunks))

    def resized(request: TraceRequest) -> TraceRequest:
        whole, tail = divmod(request.input_tokens, trace.block_size)
        tokens = chunks_of(whole) * chunk_tokens + _at_least_one(tail, ratio)
        return replace(
            request,
            input_tokens=max(1, tokens),
            output_tokens=_at_least_one(request.output_tokens, ratio),
            blocks=tuple(names.setdefault(name, len(names)) for name in named(request)),
        )

    return replace(trace, block_size=chunk_tokens, requests=tuple(map(resized, trace.requests)))


def fit_lengths(trace: Trace, max_tokens: int, over: OverLength, limit: str = "max_model_len") -> Trace:
    """The trace whose every input + output is at most `max_tokens`, which `limit` names (vLLM refuses longer ones).

    `fail` raises TraceError for the first request that is longer; `drop` leaves such requests out; `clip-output`
    shortens their answers. No prompt is ever clipped: its blocks would be others. Raises TraceError too for a prompt
    that leaves no room for one token under `clip-output`, and where `drop` leaves nothing.
    """
    kept = []
    for request in trace.requests:
        fits = request.input_tokens + request.output_tokens <= max_tokens
        if not fits and over == "drop":
            continue
        if not fits and (over == "fail" or request.input_tokens >= max_tokens):
            raise TraceError(
                f"a request has {request.input_tokens} + {request.output_tokens} tokens (input + output); "
                f"{limit} is {max_tokens}",
                where=f"{trace.source}: row {request.row} (from 0)",
                remedy="raise the limit, give a length_scale, or use over_length: "
                + ("drop or clip-output" if over == "fail" else "drop, since no output is left to clip"),
            )
        kept.append(request if fits else replace(request, output_tokens=max_tokens - request.input_tokens))
    if not kept:
        raise TraceError(
            f"every request has more than {max_tokens} tokens ({limit})",
            where=trace.source,
            remedy="give a length_scale",
        )
    first = kept[0].arrival_us
    return replace(trace, requests=tuple(replace(one, arrival_us=one.arrival_us - first) for one in kept))


def _at_least_one(tokens: int, ratio: Fraction) -> int:
    """The scaled number of tokens, none where there was none."""
    return max(1, _half_up(tokens * ratio)) if tokens else 0


def _half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))
