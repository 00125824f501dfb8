"""The prediction of an arm."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.config import Arm
from harness.errors import ConfigError
from harness.experiment.machine import Machine
from harness.experiment.predict import measured_costs
from harness.experiment.prepare import Prepared, prepare
from harness.experiment.simulation import Costs, cache_spec, service_of
from harness.experiment.warm_up import WarmUp, warm_up_plan
from harness.records import Outcome, RequestRecord
from harness.sim.keys import blake3_keys
from tests.fakes.plans import CELL

LAPTOP = Path(__file__).parents[3] / "configs" / "laptop.yaml"
LENGTH = 1301


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The shipped experiment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        return prepare(LAPTOP)


STEP_MS = 10.0


def warmed(laptop: Prepared, arm: Arm, cold_ms: Sequence[float], hot_ms: Sequence[float], cached: int) -> WarmUp:
    """The arm's warm-up as it would be sent, answered in these times (ms), two tokens each 10 ms apart."""

    def record(ttft_ms: float, tokens: int) -> RequestRecord:
        first = round(ttft_ms * 1e6)
        return replace(
            RequestRecord(CELL, 0, 0, "", LENGTH, 2, 0, Outcome.OK),
            sent_ns=0,
            first_token_ns=first,
            last_token_ns=first + round(STEP_MS * 1e6),
            completion_tokens=2,
            cached_tokens=tokens,
        )

    requests = warm_up_plan(arm.name, laptop.workloads).passes[1].requests
    assert len(cold_ms) == len(hot_ms) == len(requests)
    return WarmUp(requests, tuple(record(ms, 0) for ms in cold_ms), tuple(record(ms, cached) for ms in hot_ms))


def test_costs_of_an_arm_that_recomputes(laptop: Prepared) -> None:
    """R is the median behind a step, which is one more token; the spread is around it; there is no T0."""
    arm = laptop.experiment.arms[0]
    cold = [900.0, 210.0, 200.0, 220.0, 210.0, 210.0, 230.0]
    costs = measured_costs(laptop, arm, warmed(laptop, arm, cold, [210.0] * 7, 0), None)
    assert costs.step_s == pytest.approx(0.010)
    assert costs.prefill_tokens_per_s == pytest.approx(LENGTH / 0.200)
    assert costs.hit_fixed_s == 0
    assert sorted(costs.prefill_spread) == pytest.approx([0.95, 1.0, 1.0, 1.0, 1.05, 1.1])


@pytest.mark.parametrize("name", ["valkey-1", "valkey-4"])
def test_costs_of_an_arm_with_a_remote_tier(name: str, laptop: Prepared) -> None:
    """T0 is a hit's time without its own transfer, a step, and the tokens not hit: with one instance or several."""
    machine = Machine(6500.0, 4096, LENGTH)
    arm = next(one for one in laptop.experiment.arms if one.name == name)
    chunk_ms = 256 * 4096 / ((0.34 if name == "valkey-1" else 1.06) * 6500 * 4096) * 1e3
    fullest = [_fullest(laptop, arm, place) for place in range(7)]
    hot = [3000.0, *(chunks * chunk_ms + 50.0 + extra for chunks, extra in zip(fullest[1:], range(6), strict=True))]
    costs = measured_costs(laptop, arm, warmed(laptop, arm, [210.0] * 7, hot, 1280), machine)
    left_ms = 50.0 - STEP_MS - 21 * 200 / LENGTH
    assert costs.hit_fixed_s * 1e3 == pytest.approx(left_ms + 2.5)
    assert [round(one * 1e3, 3) for one in costs.hit_fixed_spread_s] == [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]
    if name == "valkey-4":
        assert 1 < min(fullest) < max(fullest) <= 5  # of five chunks: which instance each lies on decides


def _fullest(laptop: Prepared, arm: Arm, place: int) -> int:
    """Chunks on the instance that has most of those of a warm-up prompt."""
    tokens = warm_up_plan(arm.name, laptop.workloads).passes[1].requests[place].tokens
    assert arm.valkey is not None
    homes = [int.from_bytes(key, "big") % arm.valkey.instances for key in blake3_keys(tokens, 256)]
    return max(map(homes.count, homes))


def test_a_hit_from_host_memory_has_no_transfer(laptop: Prepared) -> None:
    """What LMCache keeps in host memory comes over no link."""
    arm = laptop.experiment.arms[1]
    costs = measured_costs(laptop, arm, warmed(laptop, arm, [210.0] * 7, [50.0] * 7, 1280), Machine(1.0, 4096, LENGTH))
    assert costs.hit_fixed_s == pytest.approx(0.050 - 0.010 - 21 * 0.200 / LENGTH)


def test_a_hit_faster_than_its_link_costs_nothing_more(laptop: Prepared) -> None:
    """T0 is never below zero."""
    arm = laptop.experiment.arms[2]
    warm = warmed(laptop, arm, [210.0] * 7, [1.0] * 7, 1280)
    assert measured_costs(laptop, arm, warm, Machine(6500.0, 4096, LENGTH)).hit_fixed_s == 0


def test_how_each_mode_of_lmcache_is_asked(laptop: Prepared) -> None:
    """Its server in rounds of two steps, eight loads at once; inside the engine every step, 10 ms a look, one load."""
    costs, machine = Costs(6500.0, 0.01, 0.0), Machine(6500.0, 4096, LENGTH)
    services = {arm.name: service_of(laptop.experiment, arm, costs, machine) for arm in laptop.experiment.arms}
    assert (services["host"].lookup_steps, services["host"].lookup_poll_s) == (2, 0.0)
    assert (services["valkey-4"].lookup_steps, services["valkey-4"].loads_in_flight) == (2, 8)
    inside = services["valkey-4-async"]
    assert (inside.lookup_steps, inside.lookup_poll_s, inside.loads_in_flight) == (1, 0.01, 1)
    assert services["valkey-4"].loads == inside.loads == "asynchronous"
    assert services["valkey-1-sync"].loads == "in-step"


def test_several_engines_are_not_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that says so, not the prediction of one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    two = prepare(LAPTOP.parent / "two-engines.yaml")
    with pytest.raises(ConfigError, match="2 engines before one remote tier are not simulated"):
        cache_spec(two.experiment, two.experiment.arms[0], 4096)
