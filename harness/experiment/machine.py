"""What the probe measured of this machine, and what follows for links and rates given in multiples of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.config import Arm, Experiment
from harness.model import CostModel


@dataclass(frozen=True, slots=True)
class Machine:
    """R, in prompt tokens a second at prompts of `prompt_tokens`, and s, in KV bytes a token."""

    prefill_tokens_per_s: float
    kv_bytes_per_token: int
    prompt_tokens: int

    @property
    def bstar_bytes_per_s(self) -> float:
        """B* = s R."""
        return self.remote(math.inf).bstar_bytes_per_s

    def remote(self, bandwidth_bytes_per_s: float) -> CostModel:
        """The cost model of this machine with a remote tier of that bandwidth; T0 is not measured here."""
        return CostModel(self.prefill_tokens_per_s, self.kv_bytes_per_token, None, bandwidth_bytes_per_s)

    def link_bytes_per_s(self, arm: Arm) -> float | None:
        """The rate of each of the arm's links; None without a link."""
        if arm.valkey is None or arm.valkey.link is None:
            return None
        return arm.valkey.link.bandwidth.resolve(self.bstar_bytes_per_s)

    def remote_bytes_per_s(self, arm: Arm) -> float | None:
        """All links of the arm together; None without a link."""
        rate = self.link_bytes_per_s(arm)
        return None if rate is None or arm.valkey is None else rate * arm.valkey.instances

    def facts(self) -> Mapping[str, float]:
        """For run.json."""
        return {
            "prefill_tokens_per_s": self.prefill_tokens_per_s,
            "kv_bytes_per_token": self.kv_bytes_per_token,
            "bstar_bytes_per_s": self.bstar_bytes_per_s,
            "prompt_tokens": self.prompt_tokens,
        }


def link_bytes_per_s(arm: Arm, machine: Machine | None) -> float | None:
    """The rate of each of the arm's links; None without a link, or if it is a multiple of a B* that is not known."""
    if machine is not None:
        return machine.link_bytes_per_s(arm)
    link = None if arm.valkey is None else arm.valkey.link
    return None if link is None else link.bandwidth.bytes_per_s


def needs_probe(experiment: Experiment, arms: Sequence[Arm]) -> bool:
    """Whether a link of `arms` is given in multiples of B*, or a workload of the experiment has a rate that needs R."""
    links = [arm.valkey.link for arm in arms if arm.valkey is not None and arm.valkey.link is not None]
    traces = [workload.trace for workload in experiment.workloads if workload.trace is not None]
    return any(link.bandwidth.bstar is not None for link in links) or any(trace.matches_rho for trace in traces)
