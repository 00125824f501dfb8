"""Cached tokens of each request as those of the engine and those of LMCache: only where there is no doubt."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.analysis.lookup import HITS, Loaded, Lookup, Row

Split = tuple[int | None, int | None]
_LOCAL, _EXTERNAL = "prefix_cache_hits", "external_prefix_cache_hits"


def split_cached(rows: Sequence[Row], loaded: Sequence[Loaded], passes: Mapping[tuple[Any, ...], Row]) -> list[Split]:
    """(local, external) of each request of one arm; (None, None) where they cannot be told apart.

    The server counts both together. Which is which follows from the lookup: nothing came from LMCache where it is not
    there or found nothing; in-process it says what the engine had; and all came from it where the engine gained no
    local hit in the whole pass. Else its load lines say how much was copied, and that is taken if all splits of the
    pass add up to the engine's own two counters, exactly.
    """
    splits = [_certain(row, one) for row, one in zip(rows, loaded, strict=True)]
    by_pass: dict[tuple[Any, ...], list[int]] = {}
    for at, row in enumerate(rows):
        by_pass.setdefault((row["arm"], row["workload"], row["pass"], row["repeat"]), []).append(at)
    for key, places in by_pass.items():
        open_ones = [at for at in places if splits[at] == (None, None) and rows[at]["cached_tokens"] is not None]
        counters = passes.get(key)
        if not open_ones or counters is None:
            continue
        tried: dict[int, Split]
        if counters[_LOCAL] == 0:
            tried = {at: (0, rows[at]["cached_tokens"]) for at in open_ones}
        else:
            tried = {at: _by_load(rows[at], loaded[at]) for at in open_ones}
            if not _adds_up([tried.get(at, splits[at]) for at in places], counters):
                continue
        for at, split in tried.items():
            splits[at] = split
    return splits


def _certain(row: Row, one: Loaded) -> Split:
    cached = row["cached_tokens"]
    if cached is None or one.lookup in {Lookup.NO_LOG, Lookup.NOT_SERVED}:
        return None, None
    if one.lookup not in HITS:
        return cached, 0
    if one.computed is not None and one.need is not None and one.computed + one.need == cached:
        return one.computed, one.need
    if one.hit is not None and cached > one.hit:
        return cached, 0
    return None, None


def _by_load(row: Row, one: Loaded) -> Split:
    """What was copied out of LMCache reaches to the end of what it found; without a copy the engine had it all."""
    cached: int = row["cached_tokens"]
    external = min(one.copied or 0, cached)
    return cached - external, external


def _adds_up(splits: Sequence[Split], counters: Row) -> bool:
    local, external = sum(one[0] or 0 for one in splits), sum(one[1] or 0 for one in splits)
    return local == counters[_LOCAL] and external == (counters[_EXTERNAL] or 0)
