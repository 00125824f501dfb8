"""Which arms a probe measures, in which order, and which of them are started together. Pure."""

from collections.abc import Callable, Sequence

from harness.config import Arm

_TOGETHER = 2  # an engine's start is the work of one core, and the smallest machine has two


def distinct_tiers(arms: Sequence[Arm]) -> tuple[tuple[Arm, ...], dict[str, str]]:
    """Arms of which each has something to tell that none before it has; by name of each other one, whom it is like.

    R needs one engine without LMCache. Arms with equal Valkeys, links and chunks have one B, and host memory is one
    tier, whoever keeps it; what loads inside the engine's step do to a queue follows from both.
    """
    kept: dict[object, Arm] = {}
    like: dict[str, str] = {}
    for arm in arms:
        tier = None if arm.lmcache is None else (arm.valkey, arm.lmcache.chunk_size)
        first = kept.setdefault((arm.python, arm.attach, tier), arm)
        if first is not arm:
            like[arm.name] = first.name
    return tuple(kept.values()), like


def in_order(arms: Sequence[Arm], *, starts: bool) -> tuple[Arm, ...]:
    """Arms without LMCache first, where R is measured; one is `started` for that if there is none."""
    ordered = sorted(arms, key=lambda arm: arm.lmcache is not None)
    return (Arm(name="probe"), *ordered) if starts and ordered[0].lmcache is not None else tuple(ordered)


def groups(arms: Sequence[Arm], fit: Callable[[Sequence[Arm]], bool]) -> list[list[Arm]]:
    """`arms` in their order, those of a group started together: two that `fit` on the machine, links included.

    A link in multiples of B* cannot be set before R is measured, in the first group.
    """
    found: list[list[Arm]] = []
    for arm in arms:
        waits = len(found) == 1 and _needs_bstar(arm)
        if found and not waits and len(found[-1]) < _TOGETHER and fit([*found[-1], arm]):
            found[-1].append(arm)
        else:
            found.append([arm])
    return found


def _needs_bstar(arm: Arm) -> bool:
    return arm.valkey is not None and arm.valkey.link is not None and arm.valkey.link.bandwidth.bstar is not None
