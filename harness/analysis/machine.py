"""What the run knew of the machine: R, s and B* from its probe, and each arm's bandwidth and load beside them."""

from collections.abc import Iterator
from typing import Any

from harness.analysis.finding import Estimate, Finding
from harness.records import Run

_PROBE = {
    "prefill_tokens_per_s": "tokens/s",
    "kv_bytes_per_token": "bytes/token",
    "bstar_bytes_per_s": "bytes/s",
}


def machine_findings(run: Run) -> tuple[Finding, ...]:
    """R, s and B* of the machine; by arm: Valkey instances, bandwidth of each link, all links over B*, rho.

    Read from run.json; what it does not hold has no finding. None of them has an interval: each was told once.
    """
    probe: dict[str, Any] = run.meta.get("probe") or {}
    of_machine = [
        Finding(name, unit, _told(probe[name], "probe of this machine"), {})
        for name, unit in _PROBE.items()
        if probe.get(name) is not None
    ]
    arms: dict[str, dict[str, Any]] = run.meta.get("arms") or {}
    of_arms = [f for name, facts in arms.items() for f in _arm(name, facts, probe.get("bstar_bytes_per_s"))]
    return (*of_machine, *of_arms)


def _arm(name: str, facts: dict[str, Any], bstar: float | None) -> Iterator[Finding]:
    by = {"arm": name}
    link, instances, rho = facts.get("link_bytes_per_s"), facts.get("instances"), facts.get("rho")
    if instances:
        yield Finding("valkey_instances", "instances", _told(instances, "config"), by)
    if link is not None:
        yield Finding("link_bytes_per_s", "bytes/s", _told(link, "config, per instance"), by)
    if link is not None and instances and bstar:
        yield Finding("bandwidth_over_bstar", "x", _told(link * instances / bstar, "all links together / B*"), by)
    if rho is not None:
        yield Finding("rho", "", _told(rho, "lambda n s / B of the plan"), by)


def _told(value: float, method: str) -> Estimate:
    return Estimate(float(value), None, None, 1, method)
