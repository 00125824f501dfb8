"""What became of an arm's LMCache log."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArmLog:
    """An arm's LMCache: whether its log was read, and whether another machine may have written it."""

    was_read: bool
    is_remote: bool = False
