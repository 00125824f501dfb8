"""From what a probe measured to figures and verdicts, arm by arm. Pure."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.forecast import forecast
from harness.analysis.forecast_json import estimate_json, figure_json, forecast_json
from harness.analysis.verdict import Verdict
from harness.config import Arm
from harness.errors import ConfigError
from harness.experiment.placement import placement_of
from harness.experiment.prepare import Prepared
from harness.experiment.probe import COPIES, ArmMeasured, Measured, prompt_of
from harness.experiment.raw_valkey import RawPoint
from harness.model import Estimate
from harness.model.figures import Figure, Question
from harness.model.fit import Line
from harness.model.kv_bytes import Agreement, counted_bytes_per_token
from harness.model.load import Traffic
from harness.model.uncertain import fitted
from harness.model.verdict import Judgement, Word, judge_model

_UNQUIET = 0.1  # noise of a quiet machine is 1 to 5 %


@dataclass(frozen=True, slots=True)
class Asked:
    """What the verdict is to be about (None: the config's own workloads), and from how many prompts of each length."""

    prompt_tokens: float | None = None
    requests_per_s: float | None = None
    hit_share: float | None = None
    in_step: bool = False
    p99_target_s: float | None = None
    copies: int = COPIES

    def __post_init__(self) -> None:
        """Raises ConfigError for what cannot be asked, before anything is measured."""
        if self.copies < 2:
            what = f"{self.copies} of each length are too few to fit a line"
            raise ConfigError(what, where="--copies", remedy="2 or more")
        Question(self.prompt_tokens, p99_target_s=self.p99_target_s)
        rate = 1.0 if self.requests_per_s is None else self.requests_per_s
        Traffic(rate, 1.0, 1.0 if self.hit_share is None else self.hit_share)


@dataclass(frozen=True, slots=True)
class ArmFindings:
    """An arm's figures, and its verdict where s is known. `size` compares s with what was counted."""

    measured: ArmMeasured
    figures: Mapping[str, Figure]
    judgement: Judgement | None
    verdict: Verdict | None
    size: Agreement | None
    load_s: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class ProbeFindings:
    """All of it: cold prompts, each arm, and one word over the arms with Valkey (None: there is none).

    `stores`: cold prompts were stored too. `cautions`: what makes the intervals doubtful. `like`: arms that were left
    out, and whose tier is theirs too.
    """

    prefill: Line
    stores: bool
    arms: tuple[ArmFindings, ...]
    word: Word | None
    tighter: str
    cautions: tuple[str, ...]
    like: Mapping[str, str]


def findings_of(prepared: Prepared, measured: Measured, asked: Asked, like: Mapping[str, str]) -> ProbeFindings:
    """What `measured` says. Raises ConfigError where nothing cold was measured, or s is not known at all."""
    assert measured.prefill is not None  # noqa: S101 - a probe that ended has it
    arms = tuple(_arm(prepared, measured, one, asked) for one in measured.arms)
    remote = [one for one in arms if one.measured.arm.valkey is not None and one.judgement is not None]
    tighter = (
        f"intervals half as wide take about {3 * measured.seconds:.0f} s more (--copies {4 * asked.copies}); "
        f"these took {measured.seconds:.0f} s of measuring"
    )
    word = _overall(remote) if remote else None
    return ProbeFindings(measured.prefill, measured.stores, arms, word, tighter, tuple(_cautions(measured)), like)


def _cautions(measured: Measured) -> Iterator[str]:
    """Of lines that equal prompts lie far from: what disturbs them only ever adds, and no interval knows of that."""
    lines = {"cold prompts": measured.prefill}
    lines |= {f"hits of {one.arm.name}": one.line for one in measured.arms if one.arm.valkey is not None}
    for name, line in lines.items():
        if line is not None and line.noise > _UNQUIET:
            yield (
                f"{name} lie {line.noise:.0%} off their line: something else ran on these cores, and intervals may not "
                "hold the truth; measure again while it does not"
            )


def _arm(prepared: Prepared, measured: Measured, one: ArmMeasured, asked: Asked) -> ArmFindings:
    by_config, hits = prepared.model.kv_bytes, one.hits
    counted = counted_bytes_per_token(hits.moved_bytes, hits.moved_tokens or 0) if hits.moved_bytes else None
    size = None if by_config is None or counted is None else Agreement(by_config, counted)
    loads: dict[int, list[float]] = {}
    for point in hits.points:
        loads.setdefault(point.tokens, []).append(point.seconds)
    load_s = {tokens: statistics.median(seconds) for tokens, seconds in sorted(loads.items())}
    extra = _counted(one, counted)
    kv_bytes = by_config if by_config is not None else counted
    if kv_bytes is None or measured.prefill is None:
        return ArmFindings(one, extra, None, None, size, load_s)
    question = _question(prepared, measured, one.arm, asked)
    model = fitted(measured.prefill, one.line, kv_bytes, placement_of(one.arm))
    judgement = judge_model(model, question)
    return ArmFindings(one, {**judgement.figures, **extra}, judgement, forecast(judgement), size, load_s)


def _question(prepared: Prepared, measured: Measured, arm: Arm, asked: Asked) -> Question:
    """About what was asked, else about the config's first trace on this arm: its mean hit, their share, its rate."""
    instances = arm.valkey.instances if arm.valkey else 1
    in_step = asked.in_step or (arm.lmcache is not None and arm.lmcache.in_step)
    tokens, rate, share = asked.prompt_tokens, asked.requests_per_s, 1.0
    if tokens is None:
        traced = next((one for one in prepared.experiment.workloads if one.trace is not None), None)
        every = [] if traced is None else list(prepared.workloads.hits_on(traced, arm).values())
        hits = [one for one in every if one]
        tokens = statistics.mean(hits) if hits else prompt_of(prepared, arm)
        share = len(hits) / len(every) if hits else 1.0
        known = traced is not None and (measured.machine is not None or not traced.trace.matches_rho)  # type: ignore[union-attr]
        if rate is None and known and traced is not None:
            rate = prepared.workloads.rate_per_s(traced, measured.machine)
    traffic = (
        None if rate is None else Traffic(rate, tokens, share if asked.hit_share is None else asked.hit_share, in_step)
    )
    longest = prepared.experiment.engine.max_model_len or prepared.model.max_positions
    return Question(tokens, traffic, instances, instances, asked.p99_target_s, longest)


def _counted(one: ArmMeasured, counted: float | None) -> dict[str, Figure]:
    """Figures that were counted and not fitted."""
    hits, found = one.hits, {}
    if counted is not None:
        found["counted_kv_bytes_per_token"] = Figure("bytes/token", _exact(counted, hits.moved_tokens or 0, "counted"))
    for at_once, rate in hits.delivered_bytes_per_s.items():
        found[f"delivered_to_{at_once}_bytes_per_s"] = Figure("bytes/s", _exact(rate, at_once, f"{at_once} at once"))
    if one.link_bytes_per_s is not None:
        found["link_bytes_per_s"] = Figure("bytes/s", _exact(one.link_bytes_per_s, 1, "config, per instance"))
    if one.raw:
        last = one.raw[-1]
        found["raw_bytes_per_s"] = Figure("bytes/s", last.bytes_per_s)
    return found


def _exact(value: float, n: int, method: str) -> Estimate:
    return Estimate(value, None, None, n, method)


def _overall(arms: Sequence[ArmFindings]) -> Word:
    """As for measured runs: on if a single instance pays, with sharding if only several do, off if none does."""
    words = [(one.judgement.question.instances, one.judgement.word) for one in arms if one.judgement is not None]
    on = [instances for instances, word in words if word is Word.ON]
    if on:
        return Word.ON if min(on) == 1 else Word.ON_WITH_SHARDING
    for word in (Word.UNDECIDED, Word.ON_OVER_LENGTH):
        if any(one is word for _, one in words):
            return word
    return Word.OFF


def as_json(findings: ProbeFindings, folder: str) -> dict[str, Any]:
    """The whole as one document; names of figures are defined in docs/method.md."""
    return {
        "folder": folder,
        "verdict": None if findings.word is None else findings.word.value,
        "cold": {**_line(findings.prefill), "stored": findings.stores},
        "arms": {one.measured.arm.name: _arm_json(one) for one in findings.arms},
        "tighter": findings.tighter,
        "cautions": list(findings.cautions),
        "left_out": dict(findings.like),
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "points": [
            [int(n), round(float(t), 6), round(float(slowdown), 4)]
            for n, t, slowdown in zip(line.tokens, line.seconds, line.slowdowns, strict=True)
        ],
        "residuals": [round(float(one), 4) for one in line.residuals],
        "residual_share": line.residual_share,
        "quadratic": line.is_quadratic,
    }


def _arm_json(one: ArmFindings) -> dict[str, Any]:
    told = {} if one.judgement is None or one.verdict is None else forecast_json(one.judgement, one.verdict)
    return {
        **told,
        "figures": {name: figure_json(figure) for name, figure in one.figures.items()},
        "size": None if one.size is None else one.size.text(),
        "load_s": {str(tokens): seconds for tokens, seconds in one.load_s.items()},
        "hits": _line(one.measured.line),
        "raw": raw_json(one.measured.raw),
    }


def raw_json(points: Sequence[RawPoint]) -> list[dict[str, Any]]:
    """The raw bandwidths as a list, one for each number of clients and instances."""
    return [
        {
            "clients": point.clients,
            "instances": point.instances,
            "bytes_per_s": estimate_json(point.bytes_per_s),
            "each_bytes_per_s": list(point.each_bytes_per_s),
        }
        for point in points
    ]
