"""`kvreplay simulate --vary`: the same simulation for every combination of some inputs' values."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.experiment.prepare import Prepared
from harness.experiment.simulate import Kind, simulate_experiment

Settings = Mapping[str, str]


def simulate_varied(
    read: Callable[[Settings], Prepared], given: Settings, varied: Mapping[str, Sequence[str]], kind: Kind
) -> dict[str, Any]:
    """The document of simulate_experiment, with rows, published figures and notes of each combination in turn.

    `read` prepares the experiment under some settings, here those `given` and one combination of those `varied`, which
    each row then has under `set`. Raises what `read` and simulate_experiment raise, for the first that cannot be.
    """
    found = [(chosen, simulate_experiment(read({**given, **chosen}), kind)) for chosen in combinations(varied)]
    return {
        **found[0][1],
        "varied": {name: list(values) for name, values in varied.items()},
        "rows": [{**row, "set": chosen} for chosen, one in found for row in one["rows"]],
        "published": [{**row, "set": chosen} for chosen, one in found for row in one["published"]],
        "notes": list(dict.fromkeys(note for _, one in found for note in one["notes"])),
    }


def combinations(varied: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Every combination of one value of each name, the last name's values changing first; one that is empty of none."""
    for values in itertools.product(*varied.values()):
        yield dict(zip(varied, values, strict=True))
