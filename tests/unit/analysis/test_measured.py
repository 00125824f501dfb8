"""Which requests are measured."""

import numpy as np

from harness.analysis.measured import measured_groups
from tests.fakes.runs import FakePass, fake_run


def test_only_measured_passes() -> None:
    """Warm-up, probe and prewarm rows never enter."""
    passes = [FakePass("recompute", [9.0], name=name) for name in ("warmup", "probe", "first", "prewarm", "replay")]
    assert [group.pass_name for group in measured_groups(fake_run(passes))] == ["first", "replay"]


def test_failed_requests_keep_their_place() -> None:
    """A failed request is a gap in the series, not a shift of those after it; repeats stay apart."""
    run = fake_run([FakePass("a", [1.0, None, 3.0], repeat=0), FakePass("a", [4.0, 5.0, 6.0], repeat=1)])
    (group,) = measured_groups(run)
    first, second = group.by_repeat("ttft_ms")
    np.testing.assert_array_equal(first, [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(second, [4.0, 5.0, 6.0])


def test_empty_run_has_no_groups() -> None:
    """A run in which nothing was recorded has no groups, and no error."""
    assert measured_groups(fake_run([])) == ()
