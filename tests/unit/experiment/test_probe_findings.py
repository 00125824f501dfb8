"""From measured points to findings: a machine whose R, T0, B and s are known."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.config import Arm
from harness.errors import ConfigError
from harness.experiment.placement import placement_of
from harness.experiment.prepare import Prepared, prepare
from harness.experiment.probe import ArmMeasured, Measured
from harness.experiment.probe_engine import Hits
from harness.experiment.probe_findings import Asked, ProbeFindings, as_json, findings_of
from harness.experiment.probe_points import Point
from harness.experiment.probe_text import probe_text
from harness.experiment.raw_valkey import RawPoint
from harness.model import Estimate
from harness.model.fit import fit_hits, fit_prefill
from harness.model.verdict import Word

LAPTOP = Path(__file__).parents[3] / "configs" / "laptop.yaml"
LENGTHS = (512, 1280, 2560)
RATE, FIXED_S, SIZE = 6500.0, 0.05, 4096


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The laptop's experiment, as far as it is known before anything starts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    return prepare(LAPTOP)


def measured_arm(arm: Arm, bandwidth: float, moved_bytes: int | None = None) -> ArmMeasured:
    """An arm whose hits take T0 + n s / B x slowdown, give or take 2 %; B is of all its links."""
    times = placement_of(arm).slowdown
    points = tuple(
        Point(n, (FIXED_S + n * SIZE / bandwidth * times(n)) * (1 + 0.02 * (copy - 1)), times(n))
        for copy in range(3)
        for n in LENGTHS
    )
    line = fit_hits(*zip(*((point.tokens, point.seconds, point.slowdown) for point in points), strict=True))
    tokens = sum(point.tokens for point in points)
    raw = (RawPoint(1, 1, Estimate(bandwidth, bandwidth, bandwidth, 9, ""), (bandwidth,)),)
    raw += (RawPoint(8, 1, Estimate(1.13 * bandwidth, bandwidth, bandwidth, 9, ""), (bandwidth,)),)
    hits = Hits(
        points, tokens * SIZE if moved_bytes is None else moved_bytes, tokens, {2: 0.8 * bandwidth, 4: 0.9 * bandwidth}
    )
    return ArmMeasured(arm, bandwidth, hits, line, raw)


def found(prepared: Prepared, asked: Asked | None = None, moved_bytes: int | None = None) -> ProbeFindings:
    """One slow Valkey and four fast ones."""
    lengths = [float(n) for _ in range(3) for n in LENGTHS]
    cold = fit_prefill(lengths, [(n / RATE) * (1 + 0.01 * (i % 3 - 1)) for i, n in enumerate(lengths)])
    arms = {arm.name: arm for arm in prepared.arms}
    both = [
        measured_arm(arms["valkey-1"], 0.34 * RATE * SIZE, moved_bytes),
        measured_arm(arms["valkey-4"], 2.5 * RATE * SIZE),
    ]
    measured = Measured(prefill=cold, machine=prepared.assumed_machine(RATE), arms=both, seconds=20.0)
    return findings_of(prepared, measured, asked or Asked(copies=5), {"valkey-1-sync": "valkey-1"})


def test_one_slow_valkey_is_off_and_four_are_on(prepared: Prepared) -> None:
    """Each arm has its own word, about the trace at its matched rate; over both: on with sharding."""
    findings = found(prepared)
    words = {one.measured.arm.name: one.verdict.word for one in findings.arms if one.verdict is not None}
    assert words == {"valkey-1": Word.OFF, "valkey-4": Word.ON}
    assert findings.word is Word.ON_WITH_SHARDING
    rho = findings.arms[0].figures["rho"].estimate.value
    assert rho == pytest.approx(1.13, rel=0.02)


def test_counted_bytes_agree_or_say_so(prepared: Prepared) -> None:
    """s of config.json within 1 % of what was counted; twice as much is told."""
    agreeing = found(prepared).arms[0].size
    assert agreeing is not None
    assert agreeing.agree
    other = found(prepared, moved_bytes=10**9).arms[0].size
    assert other is not None
    assert not other.agree
    assert "more: look for" in other.text()


def test_text_and_document_have_the_same(prepared: Prepared) -> None:
    """Cold prompts, arms, clients, what a tighter interval costs; the document is JSON."""
    findings = found(prepared)
    text, document = probe_text(findings, "results/x"), as_json(findings, "results/x")
    json.dumps(document, allow_nan=False)
    for piece in ("cold prompts: 512 tokens", "arm valkey-4", "1 to 8 clients: +13%", "60 s more (--copies 20)"):
        assert piece in text
    assert set(document["arms"]) == {"valkey-1", "valkey-4"}
    assert document["verdict"] == "on_with_sharding"
    assert "valkey-1-sync was not measured: it has valkey-1's tier" in text
    assert document["cold"]["stored"] is False
    assert document["left_out"] == {"valkey-1-sync": "valkey-1"}


def test_times_that_scatter_come_with_a_caution(prepared: Prepared) -> None:
    """2 % of noise says nothing; equal prompts 25 % apart say that the machine was not quiet."""
    assert found(prepared).cautions == ()
    arm = next(one for one in prepared.arms if one.name == "valkey-1")
    lengths = [float(n) for _ in range(4) for n in LENGTHS]
    cold = fit_prefill(lengths, [(n / RATE) * (1 + 0.25 * (i % 2)) for i, n in enumerate(lengths)])
    measured = Measured(prefill=cold, arms=[measured_arm(arm, 0.34 * RATE * SIZE)], seconds=20.0)
    findings = findings_of(prepared, measured, Asked(1280, 1.0), {})
    assert [one.partition(" lie ")[0] for one in findings.cautions] == ["cold prompts"]
    assert "caution: cold prompts lie" in probe_text(findings, "results/x")


def test_a_tier_too_fast_to_be_seen_has_a_verdict(prepared: Prepared) -> None:
    """Hits of all lengths take T0: B is without limit, and the document is still JSON."""
    arm = next(one for one in prepared.arms if one.name == "host")
    points = tuple(Point(n, 0.03) for _ in range(3) for n in LENGTHS)
    line = fit_hits([point.tokens for point in points], [point.seconds for point in points])
    lengths = [float(n) for _ in range(3) for n in LENGTHS]
    cold = fit_prefill(lengths, [n / RATE for n in lengths])
    host = ArmMeasured(arm, None, Hits(points, None, None, {}), line, ())
    findings = findings_of(prepared, Measured(prefill=cold, arms=[host], seconds=9.0), Asked(1280, 1.0), {})
    assert findings.arms[0].verdict is not None
    assert findings.arms[0].verdict.word is Word.ON
    json.dumps(as_json(findings, "results/x"), allow_nan=False)
    assert "longer hits do not take longer" in probe_text(findings, "results/x")


def test_what_is_asked_replaces_the_workloads(prepared: Prepared) -> None:
    """Another length and rate are what the verdict is about."""
    question = found(prepared, Asked(2000, 0.1, copies=5)).arms[0].judgement
    assert question is not None
    assert question.question.prompt_tokens == 2000
    assert question.question.traffic is not None
    assert question.question.traffic.requests_per_s == 0.1


@pytest.mark.parametrize(
    "bad", [{"prompt_tokens": -1}, {"requests_per_s": 0}, {"hit_share": 2}, {"p99_target_s": -1}, {"copies": 1}]
)
def test_what_cannot_be_asked_is_refused_at_once(bad: dict[str, Any]) -> None:
    """Before anything is measured."""
    with pytest.raises(ConfigError):
        Asked(**bad)
