"""What became of one request's lookup in LMCache, and what that is known of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Row = Mapping[str, Any]


class Lookup(StrEnum):
    """How a request's lookup ended. docs/method.md has the rules."""

    NO_LMCACHE = "no_lmcache"
    L1 = "l1"
    L2 = "l2"
    L1_AND_L2 = "l1_and_l2"
    HIT = "hit"
    MISSED = "missed"
    MISSED_INFERRED = "missed_inferred"
    MISSED_AGAINST_PLAN = "missed_against_plan"
    TIMED_OUT = "timed_out"
    NO_LOG = "no_log"
    NOT_SERVED = "not_served"


HITS = (Lookup.L1, Lookup.L2, Lookup.L1_AND_L2, Lookup.HIT)


@dataclass(slots=True)
class Loaded:
    """What LMCache did for one request. Times in ms, None where its log does not say; `computed` tokens the engine had.

    `need` are the tokens that LMCache was to supply, where a lookup line says so; `copied` those of its load line.
    """

    lookup: Lookup
    keys: int | None = None
    l1_keys: int | None = None
    l2_keys: int | None = None
    bytes: int | None = None
    hit: int | None = None
    computed: int | None = None
    need: int | None = None
    copied: int | None = None
    lookup_ms: float | None = None
    own_lookup_ms: float | None = None
    load_ms: float | None = None
    others_before_ms: float = 0.0
    others_in_queue_ms: float = 0.0
    others_in_step_ms: float = 0.0
    in_step: bool = False
