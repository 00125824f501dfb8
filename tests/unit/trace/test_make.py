"""Made traces, and the ones we ship."""

import statistics
from collections import Counter
from itertools import pairwise
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
    rate,
    read_trace,
    sidecar_of,
    sidecar_path,
    write_trace,
)

WORKLOADS = Path(__file__).parents[3] / "workloads"


def gap_cv(trace: Trace) -> float:
    """Coefficient of variation of the gaps between arrivals."""
    gaps = [later.arrival_us - earlier.arrival_us for earlier, later in pairwise(trace.requests)]
    return statistics.stdev(gaps) / statistics.fmean(gaps)


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_files_are_made_again_byte_for_byte(tmp_path: Path, name: str) -> None:
    """The files in workloads/ are what the generator makes, sidecars included."""
    path = tmp_path / f"{name}.jsonl"
    write_trace(path, make_trace(SHIPPED[name]).requests, sidecar_of(SHIPPED[name]))

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
    assert rate(trace) == pytest.approx(1.21, rel=1e-6)
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


@settings(deadline=None)
@given(
    st.builds(
        MakeSpec,
        requests=st.integers(2, 40),
        rate=st.floats(0.01, 100),
        prefixes=st.integers(1, 9),
        prefix_tokens=st.integers(1, 4).map(lambda blocks: blocks * 512),
        arrivals=st.sampled_from(["poisson-conditioned", "deterministic", "gamma"]),
        gamma_cv=st.floats(1.1, 8),
        seed=st.integers(0, 2**64),
    )
)
def test_any_spec_makes_a_trace_that_reads_back(scratch: Path, spec: MakeSpec) -> None:
    """Any spec makes a valid trace of its count and span, which reading gives back unchanged, and makes it again."""
    trace = make_trace(spec)
    write_trace(scratch, trace.requests, sidecar_of(spec))

    assert read_trace(scratch).requests == trace.requests
    assert len(trace.requests) == spec.requests
    assert trace.requests[0].arrival_us == 0
    assert trace.requests[-1].arrival_us == round((spec.requests - 1) / spec.rate * 1000) * 1000
    assert make_trace(spec) == trace


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
        requests: tuple[TraceRequest, ...] = make_trace(MakeSpec(seed=seed)).requests
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
        {"rate": 0.0},
        {"rate": float("nan")},
        {"prefixes": 0},
        {"block_size": 0},
        {"prefix_tokens": 1000},
        {"suffix_tokens": (32, 513)},
        {"suffix_tokens": (0, 5)},
        {"output_tokens": (9, 8)},
        {"gamma_cv": 1.0},
    ],
)
def test_refuses_sizes_that_make_no_trace(wrong: dict[str, object]) -> None:
    """A wrong size is an error that names it and what it must be."""
    with pytest.raises(TraceError, match=f"{next(iter(wrong))} is .* must be"):
        MakeSpec(**wrong)  # type: ignore[arg-type]
