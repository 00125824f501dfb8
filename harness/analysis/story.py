"""All that a report shows besides the findings: pictures, tables, checks, commands. What has no data is empty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.again import commands
from harness.analysis.break_even import BreakEven, break_even
from harness.analysis.pictures import Picture, pictures
from harness.analysis.published import PublishedRow, published_rows
from harness.analysis.sources import Prediction, TokenSources, predictions, token_sources
from harness.analysis.summary import Summary
from harness.analysis.timelines import Timeline, timelines
from harness.analysis.validity import ValidityCheck, state_proofs, validity_checks
from harness.records import Run


@dataclass(frozen=True, slots=True)
class CapacityCurve:
    """Hit rate (share of prompt tokens) against the capacity of a cache (tokens), `name` says of what."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Story:
    """What the page draws, in the order in which it is read."""

    pictures: tuple[Picture, ...]
    timelines: tuple[Timeline, ...]
    sources: tuple[TokenSources, ...]
    predictions: tuple[Prediction, ...]
    published: tuple[PublishedRow, ...]
    break_even: BreakEven | None
    capacity: tuple[CapacityCurve, ...]
    validity: tuple[ValidityCheck, ...]
    proofs: tuple[ValidityCheck, ...]
    commands: tuple[str, ...]


def tell(run: Run, summary: Summary) -> Story:
    """The story of `run`, whose findings are in `summary`."""
    return Story(
        pictures=pictures(run),
        timelines=timelines(run),
        sources=token_sources(run),
        predictions=predictions(run),
        published=published_rows(summary.findings, run.meta),
        break_even=break_even(run, summary.findings),
        capacity=_capacity(run.meta),
        validity=validity_checks(summary.scoped_caveats),
        proofs=state_proofs(run.meta),
        commands=commands(run.meta, run.folder),
    )


def _capacity(meta: Mapping[str, Any]) -> tuple[CapacityCurve, ...]:
    """run.json's `capacity_curves`: name -> [[capacity in tokens, hit rate], ...]."""
    curves: Mapping[str, Sequence[Sequence[float]]] = meta.get("capacity_curves") or {}
    return tuple(
        CapacityCurve(str(name), tuple((float(point[0]), float(point[1])) for point in points if point[0] > 0))
        for name, points in curves.items()
    )
