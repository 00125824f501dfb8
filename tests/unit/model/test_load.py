"""Loads and queues of many requests, against the paper, a simulated queue and their own laws."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.model import CostModel
from harness.model.load import (
    Traffic,
    engine_load,
    engine_s_given_back,
    highest_stable_rate,
    hit_quantile_s,
    md1_wait_s,
    recompute_load,
    recompute_quantile_s,
    remote_load,
    routed_share,
    shards_for_quantile,
)
from tests.unit.model.test_cost import ARRIVALS_PER_S, CURVED, PAPER, PROMPT_TOKENS

REPLAY = Traffic(ARRIVALS_PER_S, PROMPT_TOKENS)
TRAFFIC = st.builds(Traffic, st.floats(1e-3, 100), st.floats(1, 1e5), st.floats(0, 1), st.booleans())


def test_paper_replay_is_stable_recomputing_and_not_loading() -> None:
    """Recomputing loads the GPU to 0.38; loads at 0.85 GB/s have rho 1.13 and no quantile at all."""
    one = replace(PAPER, bandwidth_bytes_per_s=0.85e9)
    assert recompute_load(one, REPLAY) == pytest.approx(0.38, abs=0.002)
    assert remote_load(one, REPLAY) == pytest.approx(1.13, abs=0.006)
    assert math.isinf(hit_quantile_s(one, REPLAY, 0.99))
    assert math.isfinite(recompute_quantile_s(one, REPLAY, 0.99))


def test_paper_replay_sharded_with_asynchronous_loads() -> None:
    """p99 0.67 s was measured with at most one request in flight, 1.28 s recomputing; the model says the same order.

    It takes every prompt as 16k and arrivals as Poisson, so it is held to a quarter, and to who wins.
    """
    sharded = replace(PAPER, bandwidth_bytes_per_s=10.76e9)
    hit, recompute = hit_quantile_s(sharded, REPLAY, 0.99), recompute_quantile_s(sharded, REPLAY, 0.99)
    assert hit < recompute
    assert recompute == pytest.approx(1.28, rel=0.25)
    assert hit == pytest.approx(0.67, rel=0.35)


def test_paper_loads_in_the_step_hold_the_engine() -> None:
    """One instance, loads in the step: the engine itself is over its limit, and stable at lower rates only."""
    held = replace(REPLAY, in_step=True)
    one = replace(PAPER, bandwidth_bytes_per_s=0.85e9)
    assert engine_load(one, held) > 1
    assert highest_stable_rate(one, held) < highest_stable_rate(one, REPLAY) < ARRIVALS_PER_S
    assert engine_s_given_back(one, held) < 0 < engine_s_given_back(one, REPLAY)


@pytest.mark.parametrize("rho", [0.05, 0.2, 0.38, 0.55, 0.8])
def test_wait_is_that_of_a_simulated_queue(rho: float) -> None:
    """Lindley's recursion over 4,000,000 arrivals at a server of 1 s: p50 and p99 within 3 %, or 5 % of a service."""
    gaps = np.random.default_rng(7).exponential(1 / rho, 4_000_000)
    steps = np.concatenate([[0.0], np.cumsum(1 - gaps)])
    waits = steps - np.minimum.accumulate(steps)
    for quantile in (0.5, 0.99):
        expected = float(np.quantile(waits, quantile))
        assert md1_wait_s(rho, 1.0, quantile) == pytest.approx(expected, rel=0.03, abs=0.05)


@settings(deadline=None)
@given(
    rate=st.floats(1e-6, 1e6),
    service=st.floats(1e-6, 1e3),
    quantile=st.sampled_from([0.5, 0.9, 0.99]),
    factor=st.floats(1, 10),
)
def test_wait_grows_with_load_and_scales_with_time(rate: float, service: float, quantile: float, factor: float) -> None:
    """More arrivals never wait less; at 1 and above the wait has no end; in other units it is the same wait."""
    assume(not 1 - 1e-6 < rate * service < 1)
    wait = md1_wait_s(rate, service, quantile)
    assert md1_wait_s(rate * factor, service, quantile) >= wait * (1 - 1e-3)
    assert md1_wait_s(rate / factor, service * factor, quantile) == pytest.approx(wait * factor, rel=1e-6)
    assert math.isinf(wait) == (rate * service >= 1)


@settings(deadline=None)
@given(model=CURVED, traffic=TRAFFIC, factor=st.floats(1, 100))
def test_more_bandwidth_never_hurts(model: CostModel, traffic: Traffic, factor: float) -> None:
    """rho, p99 and instances needed fall, the stable rate and the share that may be routed rise."""
    faster = model.instances(factor)
    assert remote_load(faster, traffic) <= remote_load(model, traffic)
    assert hit_quantile_s(faster, traffic, 0.99) <= hit_quantile_s(model, traffic, 0.99) * (1 + 1e-3)
    assert highest_stable_rate(faster, traffic) >= highest_stable_rate(model, traffic)
    assert routed_share(faster, traffic) >= routed_share(model, traffic)


@settings(deadline=None)
@given(model=CURVED, traffic=TRAFFIC)
def test_stable_up_to_the_highest_rate(model: CostModel, traffic: Traffic) -> None:
    """Just below it both loads are under 1, just above one of them is over; routing keeps rho at 0.8."""
    highest = highest_stable_rate(model, traffic)
    if math.isfinite(highest) and 1e-9 < highest < 1e9:
        below, above = (replace(traffic, requests_per_s=highest * share) for share in (0.999, 1.001))
        assert max(remote_load(model, below), engine_load(model, below)) < 1
        assert max(remote_load(model, above), engine_load(model, above)) > 1
    assert remote_load(model, traffic) * routed_share(model, traffic) <= 0.8 * (1 + 1e-9)


@settings(deadline=None)
@given(model=CURVED, traffic=TRAFFIC, slack=st.floats(1.01, 10))
def test_shards_for_a_quantile_are_the_fewest(model: CostModel, traffic: Traffic, slack: float) -> None:
    """So many meet the target and one fewer does not; a target below T0 is met by none."""
    fastest = hit_quantile_s(model.instances(math.inf), traffic, 0.99)
    assert math.isinf(shards_for_quantile(model, traffic, 0.99, model._t0() * 0.99 - 1e-9))
    if math.isfinite(fastest) and fastest > 0:
        shards = shards_for_quantile(model, traffic, 0.99, fastest * slack)
        if math.isfinite(shards):
            assert hit_quantile_s(model.instances(shards), traffic, 0.99) <= fastest * slack
        if math.isfinite(shards) and shards > 1:
            assert hit_quantile_s(model.instances(shards - 1), traffic, 0.99) > fastest * slack


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("requests_per_s", 0.0),
        ("requests_per_s", math.nan),
        ("requests_per_s", -1.0),
        ("prompt_tokens", math.inf),
        ("hit_share", 1.1),
        ("hit_share", math.nan),
    ],
)
def test_impossible_traffic_is_refused(field: str, value: float) -> None:
    """By name."""
    with pytest.raises(ConfigError, match=field):
        replace(REPLAY, **{field: value})
