"""Two arms, each named RUN:ARM, opened and compared."""

from collections.abc import Sequence
from pathlib import Path

from harness.analysis import METRICS, ArmOf, Comparison, compare
from harness.analysis.compare_json import comparison_json
from harness.errors import IncomparableError
from harness.store import open_run

__all__ = ["arm_of", "compare_arms", "comparison_json"]


def arm_of(text: str, *, allow_incomplete: bool = False) -> ArmOf:
    """The arm that `RUN:ARM` names. Raises IncomparableError on another form, RunFolderError on the run."""
    folder, colon, arm = text.rpartition(":")
    if not (folder and colon and arm):
        raise IncomparableError(
            f"{text!r} names no arm of a run", remedy="write RUN:ARM, as in results/laptop/20261130T072620Z-b71d09:host"
        )
    return ArmOf(open_run(Path(folder), allow_incomplete=allow_incomplete), arm, f"{Path(folder).name}:{arm}")


def compare_arms(a: str, b: str, metric: str, allow: Sequence[str], *, allow_incomplete: bool = False) -> Comparison:
    """B beside A. Raises IncomparableError where they are not the same measurement, or on an unknown metric."""
    if metric not in METRICS:
        raise IncomparableError(f"unknown metric {metric!r}", where="--metric", remedy=f"one of {', '.join(METRICS)}")
    sides = [arm_of(text, allow_incomplete=allow_incomplete) for text in (a, b)]
    return compare(sides[0], sides[1], metric, allow)
