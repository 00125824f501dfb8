"""Where the tokens of each pass's prompts came from, and whether the prediction said so."""

from dataclasses import dataclass

from harness.analysis.arms import rows_of
from harness.analysis.measured import measured_groups
from harness.records import Run

_COLUMNS = {
    "local_compute": "prompt_tokens_local_compute",
    "local_cache_hit": "prompt_tokens_local_cache_hit",
    "external_kv_transfer": "prompt_tokens_external_kv_transfer",
}


@dataclass(frozen=True, slots=True)
class TokenSources:
    """Prompt tokens of one arm, workload and pass by where the engine took them from (its own counters)."""

    arm: str
    workload: str
    pass_name: str
    tokens: dict[str, int]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Cached tokens as predicted and as the server counted them, over the requests of which both are known."""

    arm: str
    workload: str
    pass_name: str
    requests: int
    predicted_tokens: int
    measured_tokens: int
    exact: int


def token_sources(run: Run) -> tuple[TokenSources, ...]:
    """Those of every measured pass whose counters were read."""
    passes, columns = run.passes.to_pandas(), list(_COLUMNS.values())
    found = []
    for group in measured_groups(run):
        rows = rows_of(passes, group)
        if len(rows) and rows[columns].notna().to_numpy().all():
            tokens = {name: int(rows[column].sum()) for name, column in _COLUMNS.items()}
            found.append(TokenSources(group.arm, group.workload, group.pass_name, tokens))
    return tuple(found)


def predictions(run: Run) -> tuple[Prediction, ...]:
    """Those of every measured pass with a request of which both are known."""
    found = []
    for group in measured_groups(run):
        known = group.ok.dropna(subset=["predicted_cached_tokens", "cached_tokens"])
        if len(known):
            predicted, measured = known["predicted_cached_tokens"], known["cached_tokens"]
            totals = (len(known), int(predicted.sum()), int(measured.sum()), int((predicted == measured).sum()))
            found.append(Prediction(group.arm, group.workload, group.pass_name, *totals))
    return tuple(found)
