"""When, and with what bytes: pure functions from a trace or a passes workload to a Plan."""

from harness.schedule.body import encode_body
from harness.schedule.describe import PlanSummary, describe
from harness.schedule.passes import plan_passes
from harness.schedule.plan import PassPlan, Plan, PlannedRequest, TokenIds
from harness.schedule.replay import plan_trace
from harness.schedule.tokens import Prompting, block_tokens, prompt_tokens

__all__ = [
    "PassPlan",
    "Plan",
    "PlanSummary",
    "PlannedRequest",
    "Prompting",
    "TokenIds",
    "block_tokens",
    "describe",
    "encode_body",
    "plan_passes",
    "plan_trace",
    "prompt_tokens",
]
