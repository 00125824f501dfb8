"""The prediction of an arm."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.experiment.machine import Machine
from harness.experiment.predict import measured_costs
from harness.experiment.prepare import Prepared, prepare
from harness.experiment.simulation import cache_spec
from harness.experiment.warm_up import WarmUp
from harness.records import Outcome, RequestRecord
from tests.fakes.plans import CELL, request

LAPTOP = Path(__file__).parents[3] / "configs" / "laptop.yaml"
LENGTH = 1301


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The shipped experiment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        return prepare(LAPTOP)


def warmed(cold_ms: float, hot_ms: float, cached: int) -> WarmUp:
    """Five prompts twice, two tokens each 10 ms apart."""

    def record(ttft_ms: float, tokens: int) -> RequestRecord:
        first = round(ttft_ms * 1e6)
        return replace(
            RequestRecord(CELL, 0, 0, "", LENGTH, 2, 0, Outcome.OK),
            sent_ns=0,
            first_token_ns=first,
            last_token_ns=first + 10_000_000,
            completion_tokens=2,
            cached_tokens=tokens,
        )

    return WarmUp(request(0, [1]), (record(cold_ms, 0),) * 5, (record(hot_ms, cached),) * 5)


def test_costs_of_an_arm_that_recomputes(laptop: Prepared) -> None:
    """R is what is left behind a step, which is one more token; there is no T0."""
    costs = measured_costs(laptop, laptop.experiment.arms[0], warmed(210.0, 211.0, 0), None)
    assert costs.step_s == pytest.approx(0.010)
    assert costs.prefill_tokens_per_s == pytest.approx(LENGTH / 0.200)
    assert costs.hit_fixed_s == 0


def test_costs_of_an_arm_with_a_remote_tier(laptop: Prepared) -> None:
    """T0 is a hit's time without its transfer, a step, and the tokens that are not hit."""
    machine = Machine(6500.0, 4096, LENGTH)
    arm = laptop.experiment.arms[2]
    transfer_ms = 1280 * 4096 / (0.34 * 6500 * 4096) * 1e3
    costs = measured_costs(laptop, arm, warmed(210.0, transfer_ms + 50.0, 1280), machine)
    assert costs.hit_fixed_s == pytest.approx(0.050 - 0.010 - 21 * 0.200 / LENGTH)


def test_a_hit_faster_than_its_link_costs_nothing_more(laptop: Prepared) -> None:
    """T0 is never below zero."""
    costs = measured_costs(laptop, laptop.experiment.arms[2], warmed(210.0, 1.0, 1280), Machine(6500.0, 4096, LENGTH))
    assert costs.hit_fixed_s == 0


def test_several_engines_are_not_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that says so, not the prediction of one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    two = prepare(LAPTOP.parent / "two-engines.yaml")
    with pytest.raises(ConfigError, match="2 engines before one remote tier are not simulated"):
        cache_spec(two.experiment, two.experiment.arms[0], 4096)
