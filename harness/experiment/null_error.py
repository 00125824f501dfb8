"""A client's claims against what a null server saw: how wrong a measurement is before any server is under test."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.records import Outcome, RequestRecord
from harness.records.latency import percentile

_FEWEST_S_FOR_CPU = 1.0  # in less, what connecting took is most of the processor time
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class Claim:
    """What a client says of one request: due and sent, when each token arrived and the response ended (ns, one clock).

    `due_ns` is None of a client that keeps no schedule.
    """

    request_id: str
    due_ns: int | None
    sent_ns: int
    token_ns: Sequence[int]
    done_ns: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """What the null server says of it: when it arrived, when each token was written (ns, the same clock)."""

    arrived_ns: int
    token_ns: Sequence[int]


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, 99th percentile and greatest of some errors, ms, and how many there were."""

    p50: float
    p99: float
    max: float
    n: int

    @staticmethod
    def of(errors_ms: Sequence[float]) -> "Spread | None":
        """The spread of `errors_ms`; None of none."""
        p50, p99 = percentile(errors_ms, 50), percentile(errors_ms, 99)
        return None if p50 is None or p99 is None else Spread(p50, p99, max(errors_ms), len(errors_ms))


@dataclass(frozen=True, slots=True)
class ClientError:
    """How far a client strayed on one work. Defined in docs/method.md.

    `send_lag_ms` sent - due; `arrival_error_ms` arrival at the server - due; `ttft_error_ms` the client's TTFT less the
    server's own (first write - arrival), request by request; `itl_error_ms` the size of the difference between the
    client's and the server's gap from one token to the next. `rate_per_s` is requests over the time from the first due
    to the last done, `cpu_share` the client's processor time over the same time (1 is a core).
    """

    client: str
    work: str
    requests: int
    failed: int
    rate_per_s: float
    cpu_share: float | None
    send_lag_ms: Spread | None
    arrival_error_ms: Spread | None
    ttft_error_ms: Spread | None
    itl_error_ms: Spread | None


def claims_of(records: Iterable[RequestRecord]) -> list[Claim]:
    """The claims of the requests that succeeded."""
    return [
        Claim(
            record.request_id,
            record.cell.t0_ns + record.due_ns,
            record.cell.t0_ns + (record.sent_ns or 0),
            [record.cell.t0_ns + t_ns for t_ns in record.chunk_ns],
            record.cell.t0_ns + (record.done_ns or 0),
        )
        for record in records
        if record.outcome is Outcome.OK
    ]


def sightings_of(rows: Iterable[Sequence[object]]) -> dict[str, Sighting]:
    """The null server's own page of what it saw (harness.stack.null_server), by request id."""
    return {str(request_id): Sighting(arrived, tokens) for request_id, arrived, tokens in rows}  # type: ignore[arg-type]


def client_error(
    client: str,
    work: str,
    planned: int,
    claims: Sequence[Claim],
    seen: Mapping[str, Sighting],
    cpu_s: float | None,
) -> ClientError:
    """Compare them, request by request; a claim of a request that the server never saw counts as failed."""
    pairs = [(claim, seen[claim.request_id]) for claim in claims if claim.request_id in seen]
    begin_ns = min((claim.sent_ns if claim.due_ns is None else claim.due_ns for claim, _ in pairs), default=0)
    span_s = (max((claim.done_ns for claim, _ in pairs), default=0) - begin_ns) / 1e9
    return ClientError(
        client=client,
        work=work,
        requests=planned,
        failed=planned - len(pairs),
        rate_per_s=len(pairs) / span_s if span_s > 0 else 0.0,
        cpu_share=cpu_s / span_s if cpu_s is not None and span_s >= _FEWEST_S_FOR_CPU else None,
        send_lag_ms=_spread(claim.sent_ns - claim.due_ns for claim, _ in pairs if claim.due_ns is not None),
        arrival_error_ms=_spread(
            server.arrived_ns - claim.due_ns for claim, server in pairs if claim.due_ns is not None
        ),
        ttft_error_ms=_spread(
            (claim.token_ns[0] - claim.sent_ns) - (server.token_ns[0] - server.arrived_ns)
            for claim, server in pairs
            if claim.token_ns and server.token_ns
        ),
        itl_error_ms=_spread(
            abs((ours[1] - ours[0]) - (theirs[1] - theirs[0]))
            for claim, server in pairs
            if len(claim.token_ns) == len(server.token_ns)
            for ours, theirs in zip(pairwise(claim.token_ns), pairwise(server.token_ns), strict=True)
        ),
    )


def _spread(errors_ns: Iterable[int]) -> Spread | None:
    return Spread.of([error / _NS_PER_MS for error in errors_ns])
