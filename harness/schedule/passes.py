"""The passes workload: D documents read in several orders, each time with a question of its own."""

from collections.abc import Sequence

from harness.schedule.body import closed_loop_request
from harness.schedule.plan import PassPlan, Plan
from harness.schedule.tokens import Prompting, prompt_tokens


def plan_passes(  # noqa: PLR0913 - the keys of a passes workload, and how to make it concrete
    name: str,
    documents: int,
    document_tokens: int,
    question_tokens: int,
    output_tokens: int,
    order: Sequence[str],
    concurrency: int,
    prompting: Prompting,
    *,
    prewarm: bool = False,
) -> Plan:
    """One closed-loop pass per name in `order`: `first` and `again` read documents 0..D-1, `reverse` D-1..0.

    A prompt is a document (the request's `row`) and a question that occurs once, so that only the document's tokens can
    be shared. `seq` runs on over the passes. With `prewarm`, a pass of that name asks every document another
    question for one token, one at a time. Raises ValueError for a pass it does not know or that is named twice.
    """
    if not set(order) <= {"first", "again", "reverse"} or len(set(order)) < len(order):
        raise ValueError(f"order is {list(order)}: name first, again and reverse, each at most once")

    def one(nth: int, label: str, max_tokens: int, in_flight: int, first_seq: int) -> PassPlan:
        """Pass `nth`; its questions are the blocks behind the documents and the questions of the passes before."""
        read = range(documents) if label != "reverse" else reversed(range(documents))
        requests = tuple(
            closed_loop_request(
                prompting,
                prompt_tokens(prompting, [(doc, document_tokens), (documents * (nth + 1) + doc, question_tokens)]),
                seq=seq,
                row=doc,
                max_tokens=max_tokens,
            )
            for seq, doc in enumerate(read, start=first_seq)
        )
        return PassPlan(label, requests, in_flight)

    passes = tuple(one(nth, label, output_tokens, concurrency, documents * nth) for nth, label in enumerate(order))
    return Plan.of(name, passes, one(len(order), "prewarm", 1, 1, 0) if prewarm else None)
