"""Prometheus' text format: the few families asked for, out of the thousand a server shows."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from harness.errors import CollectError


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One line of a metrics page; `name` as it stands there, `_total` included."""

    name: str
    labels: Mapping[str, str]
    value: float


def samples(text: str, names: Collection[str], prefixes: tuple[str, ...] = ()) -> tuple[MetricSample, ...]:
    """The lines of `text` whose name is in `names` or begins with one of `prefixes`, in order; only finite numbers.

    A prefix takes counters, gauges and the sum and count of histograms; buckets and times of creation must be named.
    Other lines are not parsed at all: a page of vLLM has over a thousand. Raises CollectError on a line that is wanted
    and malformed.
    """
    wanted = "\n".join(line for line in text.split("\n") if _is_wanted(_name(line), names, prefixes))
    try:
        found = [sample for family in text_string_to_metric_families(wanted) for sample in family.samples]
    except (ValueError, KeyError, IndexError) as error:
        raise CollectError(
            f"a metrics page cannot be read: {error}",
            where=wanted[:200],
            remedy="check that the URL is a /metrics page",
        ) from error
    return tuple(MetricSample(s.name, s.labels, s.value) for s in found if math.isfinite(s.value))


def _name(line: str) -> str:
    return line.split("{", 1)[0].split(" ", 1)[0]


def _is_wanted(name: str, names: Collection[str], prefixes: tuple[str, ...]) -> bool:
    return name in names or (
        bool(prefixes) and name.startswith(prefixes) and not name.endswith(("_bucket", "_created"))
    )
