"""How chunks fall on instances: against counting it out, against throwing them, and its laws."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.model.placement import EVEN, Placement, fullest


@pytest.mark.parametrize(("chunks", "instances"), [(1, 1), (1, 4), (4, 2), (5, 4), (6, 3), (3, 9)])
def test_every_way_to_place_them_is_counted(chunks: int, instances: int) -> None:
    """Each of N^k ways is equally likely: the fullest instance of each is counted out."""
    ways = itertools.product(range(instances), repeat=chunks)
    counted = Counter(max(Counter(way).values()) for way in ways)
    expected = [counted[most] / instances**chunks for most in range(chunks + 1)]
    assert fullest(chunks, instances) == pytest.approx(expected, abs=1e-12)


def test_five_chunks_on_four_instances() -> None:
    """The laptop's: two on the fullest in 600 of 1,024 ways, three in 360, four in 60, five in 4: 2.48 on the mean."""
    assert [round(share * 1024) for share in fullest(5, 4)] == [0, 0, 600, 360, 60, 4]
    assert Placement(4, 256).slowdown(1280) == pytest.approx(4 / 5 * 2540 / 1024)


@pytest.mark.parametrize(("chunks", "instances"), [(64, 8), (500, 64), (4096, 4), (20_000, 8)])
def test_thrown_at_random_they_lie_as_told(chunks: int, instances: int) -> None:
    """The mean of 4,000 throws is within 1 %, also beyond what is counted out."""
    thrown = np.random.default_rng(3).multinomial(chunks, [1 / instances] * instances, size=4000).max(axis=1)
    expected = float(thrown.mean()) * instances / chunks
    assert Placement(instances, 256).slowdown(chunks * 256) == pytest.approx(expected, rel=0.01)


@settings(deadline=None)
@given(chunks=st.integers(1, 300), instances=st.integers(2, 64))
def test_a_prompt_waits_for_an_equal_share_at_least_and_for_all_of_it_at_most(chunks: int, instances: int) -> None:
    """Probabilities add up to 1; the fullest holds between ceil(k / N) chunks and all of them."""
    spread = Placement(instances, 100).spread(chunks * 100)
    assert sum(probability for _, probability in spread) == pytest.approx(1)
    least = math.ceil(chunks / instances) * instances / chunks
    assert all(least * (1 - 1e-9) <= times <= instances * (1 + 1e-9) for times, _ in spread)


@settings(deadline=None)
@given(chunks=st.integers(1, 200), instances=st.integers(2, 32))
def test_more_instances_never_take_longer(chunks: int, instances: int) -> None:
    """What the fullest holds falls with their number, and less than their number rises."""
    one, two = (Placement(count, 1).slowdown(chunks) for count in (instances, 2 * instances))
    assert two / (2 * instances) <= one / instances * (1 + 1e-9)
    assert two >= one * (1 - 1e-9)


def test_equal_parts_and_single_instances_have_no_slowdown() -> None:
    """By rank, or on one instance, nobody waits for a fullest one."""
    for placement in (EVEN, Placement(8), Placement(1, 256)):
        assert placement.is_even
        assert placement.slowdown(10_000) == 1


@pytest.mark.parametrize("bad", [(0, None), (-1, 256), (4, 0), (math.nan, None)])
def test_what_is_no_placement_is_refused(bad: tuple[float, int | None]) -> None:
    """No instance, an empty chunk."""
    with pytest.raises(ConfigError, match="above zero"):
        Placement(*bad)
