"""The ways to ask for a forecast: of assumed numbers, of a stack that is measured, of Valkeys alone.

Each answers with text for a terminal and with one document for programs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.analysis.forecast import forecast
from harness.analysis.forecast_json import forecast_json
from harness.errors import ConfigError
from harness.experiment.assume import parse_assumptions
from harness.experiment.prepare import Prepared, prepare
from harness.experiment.probe import run_probe
from harness.experiment.probe_arms import distinct_tiers
from harness.experiment.probe_attached import Servers, prepare_attached
from harness.experiment.probe_findings import Asked, as_json, findings_of, raw_json
from harness.experiment.probe_text import probe_text, raw_lines
from harness.experiment.progress import Progress
from harness.experiment.raw_valkey import Credentials, sweep
from harness.model.figures import Question
from harness.model.load import Traffic
from harness.model.placement import Placement
from harness.model.verdict import judge_model
from harness.report.forecast import render_forecast
from harness.store.folder import write_json

__all__ = [
    "Asked",
    "Credentials",
    "Servers",
    "assumed",
    "configured",
    "measured",
    "prepare_attached",
    "question_of",
    "raw",
]

Answer = tuple[str, dict[str, Any]]


def assumed(assumptions: str, question: Question, chunk_tokens: int | None) -> Answer:
    """The answer for R, s, T0 and B as given in `assumptions`; chunks of so many tokens lie by their hash (None: even).

    Raises ConfigError for what cannot be read or asked.
    """
    placement = Placement(question.instances, chunk_tokens)
    judgement = judge_model(parse_assumptions(assumptions, placement), question)
    verdict = forecast(judgement)
    return render_forecast(verdict, judgement.figures), forecast_json(judgement, verdict)


def configured(path: Path, arms: Sequence[str], resets: Sequence[str]) -> tuple[Prepared, dict[str, str]]:
    """The experiment in `path` with the named arms, or else with one for each tier; and who is left out for whom.

    `resets` are caches of attached servers that may be emptied. Raises ConfigError or TraceError.
    """
    settings = {"resets": ",".join(resets)} if resets else {}
    prepared = prepare(path, arms=arms, settings=settings, ask=True)
    kept, like = (prepared.arms, dict[str, str]()) if arms else distinct_tiers(prepared.arms)
    return replace(prepared, arms=kept), like


def measured(
    prepared: Prepared, asked: Asked, results_dir: Path, progress: Progress, like: Mapping[str, str]
) -> Answer:
    """The answer of a stack that is measured now; probe.json in its run folder has the document too.

    `like` are arms left out, and those that were measured for them. Raises what `run_probe` raises.
    """
    end = run_probe(prepared, results_dir, progress, copies=asked.copies)
    findings = findings_of(prepared, end.measured, asked, like)
    document = as_json(findings, str(end.folder))
    write_json(end.folder / "probe.json", document)
    return probe_text(findings, str(end.folder)), document


def raw(
    endpoints: Sequence[str], value_bytes: int, seconds: float, credentials: Credentials, progress: Progress
) -> Answer:
    """What Valkeys deliver without an engine. Raises ConfigError, StackError."""
    points = sweep(endpoints, value_bytes, seconds, progress.say, credentials)
    document = {"endpoints": list(endpoints), "value_bytes": value_bytes, "raw": raw_json(points)}
    return "\n".join(raw_lines(points)), document


def question_of(
    prompt_tokens: float | None,
    requests_per_s: float | None,
    hit_share: float | None,
    in_step: bool,
    instances: int,
    most_instances: int | None,
    p99_target_s: float | None,
) -> Question:
    """The question that these options ask. Raises ConfigError where a rate comes without a prompt's length."""
    traffic = None
    if requests_per_s is not None:
        if prompt_tokens is None:
            raise ConfigError(
                "a rate needs the length of the prompts that come at it", where="--rate", remedy="give --prompt too"
            )
        traffic = Traffic(requests_per_s, prompt_tokens, 1.0 if hit_share is None else hit_share, in_step)
    return Question(prompt_tokens, traffic, instances, most_instances, p99_target_s)
