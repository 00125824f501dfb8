"""Made traces, and the ones we ship."""

import statistics
from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import TraceError
from harness.trace import (
    SHIPPED,
    MakeSpec,
    Trace,
    TraceRequest,
    make_trace,
    read_trace,
    sidecar_of,
    sidecar_path,
    write_trace,
)
from harness.trace.arrivals import Arrivals
from harness.trace.make import PassesSpec
from harness.trace.transform import mean_rate
from tests.fakes.drawn_traces import shared_tokens

WORKLOADS = Path(__file__).parents[3] / "workloads"


def gap_cv(trace: Trace) -> float:
    """Coefficient of variation of the gaps between arrivals."""
    gaps = [later.arrival_us - earlier.arrival_us for earlier, later in pairwise(trace.requests)]
    return statistics.stdev(gaps) / statistics.fmean(gaps)


SIX_TIMES_ROUND = PassesSpec(10, 5120, 13, 1, ("first", *["again"] * 5), arrivals=Arrivals("deterministic", 1.0))


@pytest.mark.parametrize("name", [*sorted(SHIPPED), "ten-docs-cycle"])
def test_shipped_files_are_made_again_byte_for_byte(tmp_path: Path, name: str) -> None:
    """The files in workloads/ are what the generator makes, sidecars included."""
    path, spec = tmp_path / f"{name}.jsonl", SHIPPED.get(name, SIX_TIMES_ROUND)
    write_trace(path, make_trace(spec).requests, sidecar_of(spec))

    shipped = WORKLOADS / path.name
    assert path.read_bytes() == shipped.read_bytes()
    assert sidecar_path(path).read_bytes() == sidecar_path(shipped).read_bytes()


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_files_are_what_they_say(name: str) -> None:
    """683 requests at 1.21 a second, 68 shared prefixes of 16,384 tokens, suffixes and outputs within their bounds."""
    trace = read_trace(WORKLOADS / f"{name}.jsonl")
    prefixes = Counter(request.blocks[:-1] for request in trace.requests)
    tails = {request.blocks[-1] for request in trace.requests}

    assert trace.provenance == "reconstructed"
    assert len(trace.requests) == 683
    assert mean_rate(trace) == pytest.approx(1.21, rel=1e-6)
    assert round(trace.requests[-1].arrival_us / 1e6) == 564
    assert len(prefixes) == 68
    assert {len(prefix) for prefix in prefixes} == {32}
    assert set(prefixes.values()) == {10, 11}
    assert len(tails) == 683
    assert all(32 <= request.input_tokens - 16_384 <= 240 for request in trace.requests)
    assert all(32 <= request.output_tokens <= 160 for request in trace.requests)


def test_siblings_differ_in_their_times_only() -> None:
    """The three shipped traces have the same rows, first and last arrival; their gaps vary as their names say."""
    plain, even, bursty = (make_trace(spec) for spec in SHIPPED.values())

    def rows(trace: Trace) -> list[tuple[object, ...]]:
        return [(r.row, r.input_tokens, r.output_tokens, r.blocks) for r in trace.requests]

    assert rows(plain) == rows(even) == rows(bursty)
    assert len({(t.requests[0].arrival_us, t.requests[-1].arrival_us) for t in (plain, even, bursty)}) == 1
    assert gap_cv(even) < 0.01
    assert gap_cv(plain) == pytest.approx(1, abs=0.1)
    assert gap_cv(bursty) == pytest.approx(2.5, abs=0.1)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that every drawn example writes anew."""
    return tmp_path_factory.mktemp("made") / "t.jsonl"


ARRIVALS = st.builds(
    Arrivals,
    process=st.sampled_from(["poisson-conditioned", "deterministic", "gamma"]),
    rate=st.floats(0.01, 100),
    cv=st.floats(0.2, 8),
    seed=st.integers(0, 2**64),
)
SHARED_PREFIX = st.builds(
    MakeSpec,
    requests=st.integers(2, 40),
    prefixes=st.integers(1, 9),
    prefix_tokens=st.integers(1, 4).map(lambda blocks: blocks * 64),
    suffix_tokens=st.tuples(st.integers(1, 70), st.integers(70, 200)),
    order=st.sampled_from(["cyclic", "zipf", "uniform"]),
    zipf_exponent=st.floats(0, 3),
    block_size=st.just(64),
    arrivals=ARRIVALS,
    seed=st.integers(0, 2**64),
)
PASSES = st.builds(
    PassesSpec,
    documents=st.integers(2, 9),
    document_tokens=st.integers(1, 4).map(lambda blocks: blocks * 64),
    question_tokens=st.integers(1, 200),
    order=st.permutations(["first", "again", "reverse"]).map(tuple),
    block_size=st.just(64),
    arrivals=ARRIVALS,
)


@given(SHARED_PREFIX | PASSES)
def test_any_spec_makes_a_trace_that_reads_back(scratch: Path, spec: MakeSpec | PassesSpec) -> None:
    """Any spec makes a valid trace of its count and span, which reading gives back unchanged, and makes it again."""
    trace = make_trace(spec)
    write_trace(scratch, trace.requests, sidecar_of(spec))

    assert read_trace(scratch).requests == trace.requests
    assert len(trace.requests) == spec.requests
    assert trace.requests[0].arrival_us == 0
    assert trace.requests[-1].arrival_us == round((spec.requests - 1) / spec.arrivals.rate * 1000) * 1000
    assert make_trace(spec) == trace


@given(SHARED_PREFIX)
def test_requests_of_a_group_share_its_prefix_and_nothing_else(spec: MakeSpec) -> None:
    """Lengths are within their bounds, and two prompts share the whole prefix or not one block."""
    trace = make_trace(spec)
    blocks = spec.prefix_tokens // spec.block_size

    assert len({request.blocks[:blocks] for request in trace.requests}) <= spec.prefixes
    for one in trace.requests:
        assert spec.suffix_tokens[0] <= one.input_tokens - spec.prefix_tokens <= spec.suffix_tokens[1]
        assert spec.output_tokens[0] <= one.output_tokens <= spec.output_tokens[1]
    for one, other in combinations(trace.requests, 2):
        assert shared_tokens(one, other, spec.block_size) in (0, spec.prefix_tokens)


@given(PASSES)
def test_passes_read_every_document_in_their_order(spec: PassesSpec) -> None:
    """Each pass reads each document once, `reverse` from the last to the first; questions are never shared."""
    trace = make_trace(spec)
    blocks = spec.document_tokens // spec.block_size
    read = [request.blocks[:blocks] for request in trace.requests]
    passes = {name: read[nth * spec.documents :][: spec.documents] for nth, name in enumerate(spec.order)}

    assert passes["first"] == passes["again"] == passes["reverse"][::-1]
    assert len(set(passes["first"])) == spec.documents
    own = [block for request in trace.requests for block in request.blocks[blocks:]]
    assert len(set(own)) == len(own)


def uses(spec: MakeSpec) -> list[int]:
    """How often each prefix that is used is used, the most often first."""
    return sorted(Counter(request.blocks[0] for request in make_trace(spec).requests).values(), reverse=True)


def test_orders_of_reuse() -> None:
    """Zipf: the k-th of K prefixes k**-1 / H(K) of the time; uniform and exponent 0: all alike; cyclic: exactly."""
    many = MakeSpec(requests=4000, prefixes=20, prefix_tokens=64, block_size=64, seed=3)
    harmonic = sum(1 / k for k in range(1, 21))
    zipf, flat, uniform, cyclic = (
        uses(replace(many, order="zipf")),
        uses(replace(many, order="zipf", zipf_exponent=0.0)),
        uses(replace(many, order="uniform")),
        uses(many),
    )

    assert zipf[0] == pytest.approx(4000 / harmonic, rel=0.1)
    assert zipf[4] == pytest.approx(4000 / harmonic / 5, rel=0.3)
    for counts in (flat, uniform):
        assert sum((count - 200) ** 2 / 200 for count in counts) < 45  # chi-square, 19 degrees of freedom
    assert cyclic == [200] * 20


def test_times_of_another_trace() -> None:
    """`recorded` takes the first times of another trace, from its first on, and says whose they are."""
    times = Arrivals("recorded", recorded_us=(5, 7, 7, 100), recorded_from="azure.csv")
    spec = MakeSpec(requests=3, arrivals=times)

    assert [request.arrival_us for request in make_trace(spec).requests] == [0, 2, 2]
    assert sidecar_of(spec).arrivals == {"process": "recorded", "from": "azure.csv"}
    assert "Only the arrivals were recorded." in sidecar_of(spec).notes
    with pytest.raises(TraceError, match="5 requests, but only 4 recorded times"):
        make_trace(MakeSpec(requests=5, arrivals=times))


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.5, 4.0])
def test_gamma_gaps_have_their_cv(cv: float) -> None:
    """Below 1, at 1 and above."""
    trace = make_trace(MakeSpec(requests=4000, prefixes=1, arrivals=Arrivals("gamma", cv=cv), prefix_tokens=512))
    assert gap_cv(trace) == pytest.approx(cv, rel=0.12)


@settings(deadline=None)
@given(st.integers(2, 9), st.integers(0, 99))
def test_each_cycle_reads_every_prefix_once(prefixes: int, seed: int) -> None:
    """Within a cycle no prefix comes twice."""
    trace = make_trace(MakeSpec(requests=3 * prefixes, prefixes=prefixes, prefix_tokens=512, seed=seed))
    for start in range(0, 3 * prefixes, prefixes):
        assert len({request.blocks[0] for request in trace.requests[start : start + prefixes]}) == prefixes


def test_another_seed_makes_another_trace() -> None:
    """Seeds matter for lengths, order and times."""

    def columns(seed: int) -> list[list[object]]:
        requests: tuple[TraceRequest, ...] = make_trace(MakeSpec(seed=seed, arrivals=Arrivals(seed=seed))).requests
        return [
            [r.arrival_us for r in requests],
            [r.input_tokens for r in requests],
            [r.output_tokens for r in requests],
            [r.blocks[0] for r in requests],
        ]

    assert all(one != other for one, other in zip(columns(1), columns(2), strict=True))


@pytest.mark.parametrize(
    "wrong",
    [
        {"requests": 1},
        {"prefixes": 0},
        {"block_size": 0},
        {"prefix_tokens": 1000},
        {"suffix_tokens": (0, 5)},
        {"output_tokens": (9, 8)},
        {"order": "random"},
        {"zipf_exponent": -1.0},
        {"zipf_exponent": float("nan")},
    ],
)
def test_refuses_sizes_that_make_no_trace(wrong: dict[str, object]) -> None:
    """A wrong size is an error that names it and what it must be."""
    with pytest.raises(TraceError, match=f"{next(iter(wrong))} is .* must be"):
        MakeSpec(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"process": "poisson"}, "arrivals"),
        ({"rate": 0.0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"cv": 0.0}, "cv"),
    ],
)
def test_refuses_arrivals_that_are_none(wrong: dict[str, object], name: str) -> None:
    """A process, a rate or a CV that cannot be is named."""
    with pytest.raises(TraceError, match=f"{name} is .* must be"):
        Arrivals(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"documents": 0},
        {"document_tokens": 1000},
        {"question_tokens": 0},
        {"output_tokens": 0},
        {"order": ("first", "second")},
        {"block_size": 0},
    ],
)
def test_refuses_passes_that_are_none(wrong: dict[str, object]) -> None:
    """A wrong size is an error that names it and what it must be."""
    with pytest.raises(TraceError, match=f"{next(iter(wrong))} is .* must be"):
        PassesSpec(**wrong)  # type: ignore[arg-type]
