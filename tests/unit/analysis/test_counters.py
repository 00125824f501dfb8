"""harness.analysis.counters: samples laid over windows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.counters import gained, last_in_window, mean_in_window

STEPS = st.lists(st.integers(0, 1000), min_size=2, max_size=20)


@settings(deadline=None)
@given(STEPS, st.integers(1, 10))
def test_windows_gain_what_the_counter_gained(steps: list[int], windows: int) -> None:
    """Over samples without a gap all windows together gain what the counter did from the first to the last."""
    values = np.cumsum(steps).tolist()
    times = [100 * at for at in range(len(values))]
    edges = np.linspace(0, times[-1], windows + 1).tolist()
    found = gained(times, values, edges)
    assert found.per_window.sum() == pytest.approx(values[-1] - values[0])
    assert found.resets_ns == ()


def test_a_counter_that_began_anew_is_seen() -> None:
    """The window of the reset is not known, and no negative number: the time it was seen is."""
    found = gained([0, 10, 20, 30, 40], [5, 7, 1, 3, 5], [0, 10, 20, 30, 40])
    assert found.per_window[[0, 2, 3]].tolist() == [2.0, 2.0, 2.0]
    assert np.isnan(found.per_window[1])
    assert found.resets_ns == (20,)


def test_a_gap_is_no_zero() -> None:
    """Windows in which the server did not answer, and those before and after all samples, are not known."""
    found = gained([10, 20, 30, 100, 110], [0, 1, 2, 50, 51], [0, 10, 20, 30, 65, 100, 110, 120])
    assert np.isnan(found.per_window).tolist() == [True, False, False, True, True, False, True]
    assert np.isnan(gained([10], [1.0], [0, 10, 20]).per_window).all()


def test_a_gauge_is_its_last_sample_in_the_window() -> None:
    """A window without a sample has none; an edge belongs to the window that it opens."""
    values = last_in_window([5, 8, 10, 31], [1.0, 2.0, 3.0, 4.0], [0, 10, 20, 30, 40])
    assert values[[0, 1, 3]].tolist() == [2.0, 3.0, 4.0]
    assert np.isnan(values[2])
    assert np.isnan(last_in_window([], [], [0, 1])).all()


def test_a_level_counts_for_as_long_as_it_holds() -> None:
    """Two for half of a window and none for the other half is one."""
    assert mean_in_window([0, 5, 10], [2, 0, 3], [0, 10, 20]).tolist() == [1.0, 0.0]
    assert mean_in_window([], [], [0, 10]).tolist() == [0.0]
