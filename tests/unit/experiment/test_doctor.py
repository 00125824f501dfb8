"""Promises of harness.experiment.doctor."""

from harness.experiment.doctor import examine, missing


def test_every_check_that_fails_has_a_remedy() -> None:
    """What is missing is named together with the command, or the way, that mends it."""
    checks = examine()
    assert {"processor", "memory", "vllm", "lmcache", "valkey-server", "gpu"} <= {check.name for check in checks}
    assert all(check.ok or check.remedy for check in checks)


def test_a_gpu_is_not_needed() -> None:
    """The CPU stack runs without one: its absence keeps nothing from running."""
    assert all(check.name != "gpu" for check in missing())
