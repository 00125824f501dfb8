"""Which arms a probe measures, and which of them start together."""

from collections.abc import Sequence
from typing import Any

from harness.config import Arm
from harness.experiment.probe_arms import distinct_tiers, groups, in_order


def arm(name: str, lmcache: dict[str, Any] | None = None, valkey: dict[str, Any] | None = None) -> Arm:
    """An arm; `lmcache` is beside the engine unless it says otherwise."""
    tier = None if lmcache is None else {"l1": "1GiB", **lmcache}
    return Arm.model_validate({"name": name, "lmcache": tier, "valkey": valkey})


SLOW, FAST = ({"instances": count, "link": {"bandwidth": rate}} for count, rate in ((1, "0.34 Bstar"), (4, "20MB/s")))
RECOMPUTE, HOST = arm("recompute"), arm("host", {})
ONE, FOUR = arm("one", {}, SLOW), arm("four", {}, FAST)
INSIDE = arm("inside", {"mode": "inprocess"}, SLOW)
ARMS = (RECOMPUTE, HOST, ONE, FOUR, INSIDE)


def names(found: Sequence[Sequence[Arm]]) -> list[list[str]]:
    """By group."""
    return [[one.name for one in group] for group in found]


def test_a_tier_is_measured_once() -> None:
    """Equal Valkeys have one B, however LMCache asks them; another chunk, or another version, is another tier."""
    kept, like = distinct_tiers(ARMS)
    assert [one.name for one in kept] == ["recompute", "host", "one", "four"]
    assert like == {"inside": "one"}
    others = (ONE, arm("chunks", {"chunk_size": 128}, SLOW), ONE.model_copy(update={"name": "old", "python": "/old"}))
    assert distinct_tiers(others) == (others, {})


def test_r_is_measured_first() -> None:
    """On an engine without LMCache; one is started for it where the config has none, and never beside a server."""
    assert [one.name for one in in_order((ONE, RECOMPUTE), starts=True)] == ["recompute", "one"]
    assert [one.name for one in in_order((ONE,), starts=True)] == ["probe", "one"]
    assert [one.name for one in in_order((ONE,), starts=False)] == ["one"]


def test_two_that_fit_start_together() -> None:
    """But no link in multiples of B* before R is known; nothing together where there is no room."""
    assert names(groups(ARMS, lambda _: True)) == [["recompute", "host"], ["one", "four"], ["inside"]]
    assert names(groups((RECOMPUTE, ONE, FOUR), lambda _: True)) == [["recompute"], ["one", "four"]]
    assert names(groups((RECOMPUTE, FOUR, ONE), lambda _: True)) == [["recompute", "four"], ["one"]]
    assert names(groups(ARMS, lambda _: False)) == [[one.name] for one in ARMS]
