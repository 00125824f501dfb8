"""What a run knew of its machine."""

from harness.analysis.machine import machine_findings
from tests.fakes.runs import fake_run

PROBE = {"prefill_tokens_per_s": 9200.0, "kv_bytes_per_token": 4096, "bstar_bytes_per_s": 37.7e6}


def test_probe_and_links() -> None:
    """R, s, B* of the machine, and all links of an arm together over B*."""
    arms = {"valkey-4": {"link_bytes_per_s": 37.7e6, "instances": 4, "rho": 0.1}}
    numbers = {f.name: f.estimate.value for f in machine_findings(fake_run([], probe=PROBE, arms=arms))}
    assert numbers == PROBE | {
        "valkey_instances": 4,
        "link_bytes_per_s": 37.7e6,
        "bandwidth_over_bstar": 4.0,
        "rho": 0.1,
    }


def test_unknown_is_absent() -> None:
    """Without a probe, or a link, nothing is said instead of zero."""
    arms = {"recompute": {"link_bytes_per_s": None, "instances": 0, "rho": None}}
    assert machine_findings(fake_run([], probe=None, arms=arms)) == ()
    no_probe = machine_findings(fake_run([], arms={"valkey-1": {"link_bytes_per_s": 1e6, "instances": 1, "rho": None}}))
    assert [finding.name for finding in no_probe] == ["valkey_instances", "link_bytes_per_s"]
