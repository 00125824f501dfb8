"""Records drawn at random for property tests, each field missing as often as it may be."""

from hypothesis import strategies as st

from harness.records import Cell, LoadEvent, Outcome, PassCounters, PassRecord, RequestRecord, ServerSample

CELL = Cell(
    run_id="r1",
    experiment="lab",
    arm="valkey-1",
    workload="docs",
    pass_name="first",
    repeat=0,
    segment="a1",
    t0_ns=5,
    t0_unix_ns=1_800_000_000_000_000_000,
)

_STAMP = st.integers(0, 10**15)  # eleven days
_COUNT = st.integers(0, 2**40)
_TEXT = st.text('ab \n"\0é漢🙂', max_size=8)
_NUMBER = st.floats(allow_nan=False, allow_infinity=False)


def _maybe(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


def request_records() -> st.SearchStrategy[RequestRecord]:
    """Requests of every outcome, whatever stamps they have."""
    counts = ["prompt_tokens", "completion_tokens", "cached_tokens", "local_cached_tokens", "external_cached_tokens"]
    stamps = ["sent_ns", "headers_ns", "first_token_ns", "last_token_ns", "done_ns"]
    return st.builds(
        RequestRecord,
        cell=st.just(CELL),
        seq=_COUNT,
        row=_COUNT,
        session=_TEXT,
        prompt_tokens_planned=_COUNT,
        max_tokens=_COUNT,
        due_ns=_STAMP,
        outcome=st.sampled_from(Outcome),
        source=st.sampled_from(["live", "sim"]),
        **{name: _maybe(_STAMP) for name in stamps},
        chunk_ns=st.lists(_STAMP, max_size=5).map(lambda stamps: tuple(sorted(stamps))),
        **{name: _maybe(_COUNT) for name in (*counts, "predicted_cached_tokens", "status")},
        error=_maybe(_TEXT),
        **{name: _maybe(_NUMBER) for name in ("queue_ms", "load_ms", "recompute_ms")},
        **{name: _maybe(_NUMBER) for name in ("server_queue_ms", "server_prefill_ms", "placement_slowdown")},
        output_text=_maybe(_TEXT),
        attempts=_maybe(st.integers(0, 9)),
    )


def load_events() -> st.SearchStrategy[LoadEvent]:
    """Events of every kind, with any of their figures missing."""
    counts = ["seq", "tokens", "hit_tokens", "need_tokens", "keys", "l1_keys", "l2_keys", "bytes"]
    counts += ["computed_tokens", "total_tokens", "rank", "pid"]
    return st.builds(
        LoadEvent,
        arm=_TEXT,
        repeat=_COUNT,
        t_unix_ns=_STAMP,
        instance=_TEXT,
        version=_TEXT,
        kind=st.sampled_from(["load", "store", "lookup", "prefetch", "failure"]),
        line=_TEXT,
        line_no=_COUNT,
        file=_TEXT,
        request_id=_maybe(_TEXT),
        **{name: _maybe(_COUNT) for name in counts},
        **{name: _maybe(_NUMBER) for name in ("cost_ms", "gb_per_s")},
    )


def server_samples() -> st.SearchStrategy[ServerSample]:
    """Samples of every source, with labels or without."""
    return st.builds(
        ServerSample,
        arm=_TEXT,
        repeat=_COUNT,
        t_ns=_STAMP,
        source=st.sampled_from(["vllm", "lmcache", "valkey", "host", "gpu"]),
        instance=_TEXT,
        name=_TEXT,
        value=_NUMBER,
        labels=st.dictionaries(_TEXT, _TEXT, max_size=3),
    )


def pass_records() -> st.SearchStrategy[PassRecord]:
    """Passes with any of their counters missing."""
    return st.builds(
        PassRecord,
        arm=st.just(CELL.arm),
        workload=st.just(CELL.workload),
        pass_name=st.sampled_from(["first", "again"]),
        repeat=st.just(CELL.repeat),
        requests=_COUNT,
        duration_s=_NUMBER,
        counters=st.builds(PassCounters, **{name: _maybe(_COUNT) for name in PassCounters.__dataclass_fields__}),
    )
