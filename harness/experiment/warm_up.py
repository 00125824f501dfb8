"""What an arm does before anything is measured: first requests are slow (code paths, pools), and R must be known."""

import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from harness.errors import CollectError, StackError
from harness.experiment.machine import Machine
from harness.experiment.session import ArmSession
from harness.experiment.workloads import Workloads
from harness.records import Caveat, Outcome, RequestRecord
from harness.schedule import PassPlan, Plan, PlannedRequest
from harness.schedule.passes import plan_passes

_QUESTION_TOKENS = 8
_PROBE_PROMPTS = 7
_EXTRA_DOCUMENTS = 3
_FORGOTTEN_DOCUMENTS = 2
_FEWEST_DOCUMENTS = 4
_MOST_DOCUMENTS = 16
_QUIET_S = 5.0  # two equal readings of an idle engine are a second apart


_TOLD: tuple[tuple[str, str, Callable[[RequestRecord], object]], ...] = (
    ("cached tokens", "--enable-prompt-tokens-details", lambda record: record.cached_tokens),
    ("time in the queue", "--enable-per-request-metrics", lambda record: record.server_queue_ms),
)


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What an arm did while it warmed up: the requests of its second round, and what became of them.

    `cold` are the records of the first round, of the same prompts, `hot` those of the second, which with LMCache hit.
    """

    requests: tuple[PlannedRequest, ...]
    cold: tuple[RequestRecord, ...]
    hot: tuple[RequestRecord, ...]

    @property
    def known(self) -> PlannedRequest:
        """A prompt that every cache of the arm has now seen."""
        return self.requests[-1]


async def require_quiet(session: ArmSession) -> None:
    """Raises StackError where somebody else's requests are on the engine: what is measured then is not its own."""
    try:
        await session.idle(_QUIET_S)
    except CollectError as error:
        raise StackError(
            f"the server is busy: {error.what}",
            where=session.stack.url,
            remedy="measure it while nobody uses it, or another of its kind",
        ) from error


async def warm_up(
    session: ArmSession, workloads: Workloads, forget: Callable[[], Awaitable[None]] | None = None
) -> WarmUp:
    """Send prompts as long as the longest of any workload, twice each and under a salt of their own.

    They are a few more than the engine's own cache holds, so that with LMCache the second round takes the load path;
    with `forget`, which empties that cache once all is idle, two are enough. Raises StackError when the engine does not
    answer them.
    """
    first, again = (one.requests for one in warm_up_plan(session.arm.name, workloads).passes)
    rounds = [(*first, *again)]
    if forget is not None:
        first, again = first[:_FORGOTTEN_DOCUMENTS], again[:_FORGOTTEN_DOCUMENTS]
        rounds = [first, again]
    records: tuple[RequestRecord, ...] = ()
    for requests in rounds:
        if records and forget is not None:
            await session.idle()
            await forget()
        records += await session.send(PassPlan("warmup", requests, 1), "warmup", 0)
    require_answers(session, records)
    lacking = [f"{what} ({option})" for what, option, of in _TOLD if all(of(record) is None for record in records)]
    if lacking:
        text = f"{session.arm.name}: answers do not say of each request its {' and its '.join(lacking)}"
        remedy = "start vLLM with what is in brackets"
        session.place.caveats.append(Caveat("answers_lack", text, remedy, session.arm.name))
    return WarmUp(again, records[: len(first)], records[len(first) :])


def warm_up_plan(arm: str, workloads: Workloads) -> Plan:
    """What `warm_up` sends to an arm: documents, cold in the first pass and again in the second."""
    length = workloads.longest_prompt_tokens
    capacity = workloads.experiment.engine.kv_cache_tokens or 0
    documents = min(max(capacity // length + _EXTRA_DOCUMENTS, _FEWEST_DOCUMENTS), _MOST_DOCUMENTS)
    return plan_passes(
        "warmup",
        documents,
        length - _QUESTION_TOKENS,
        _QUESTION_TOKENS,
        2,
        ("first", "again"),
        1,
        workloads.salted(f"warmup/{arm}"),
    )


def canary(workloads: Workloads, workload: str, repeat: int) -> PlannedRequest:
    """A prompt that every run of this seed, workload and repeat sends, as long as the longest; see make_cold."""
    prompting = workloads.salted(f"canary/{workloads.experiment.seed}/{workload}/{repeat}")
    plan = plan_passes("canary", 1, workloads.longest_prompt_tokens - 1, 1, 1, ("first",), 1, prompting)
    return plan.passes[0].requests[0]


async def probe_machine(session: ArmSession, workloads: Workloads, kv_bytes_per_token: int) -> Machine:
    """Measure R on an engine without LMCache: the median TTFT of cold prompts, one at a time, as long as the longest.

    R falls with the prompt's length (attention is quadratic), so it is measured where the workloads are. Raises
    StackError when a prompt was answered from a cache or not at all.
    """
    length = workloads.longest_prompt_tokens
    plan = plan_passes("probe", _PROBE_PROMPTS, length - 1, 1, 1, ("first",), 1, workloads.salted("probe"))
    records = await session.send(PassPlan("probe", plan.passes[0].requests, 1), "machine", 0)
    require_answers(session, records)
    if any(record.cached_tokens for record in records):
        raise StackError(
            "the probe's prompts were in a cache already: R cannot be measured",
            where=session.stack.url,
            remedy="use a new seed, or an engine that nobody else uses",
        )
    ttft_ns = [record.first_token_ns - record.sent_ns for record in records if record.first_token_ns and record.sent_ns]
    return Machine(length / (statistics.median(ttft_ns) / 1e9), kv_bytes_per_token, length)


def require_answers(session: ArmSession, records: tuple[RequestRecord, ...]) -> None:
    """Raises StackError where requests that nothing is measured with failed."""
    failed = [record for record in records if record.outcome is not Outcome.OK]
    if failed:
        first = failed[0]
        raise StackError(
            f"{len(failed)} of {len(records)} {first.cell.pass_name} requests failed, the first with {first.outcome}: "
            f"{first.error}",
            where=session.stack.url,
            remedy="see vLLM's log; is the prompt within max_model_len?",
        )
