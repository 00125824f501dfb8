"""Promises of harness.experiment.prepare: what can go wrong goes wrong before anything starts."""

from pathlib import Path

import pytest

from harness.errors import ConfigError, TraceError
from harness.experiment.machine import Machine, link_bytes_per_s
from harness.experiment.prepare import Prepared, prepare
from harness.schedule.describe import describe

ROOT = Path(__file__).parents[3]
LAPTOP = ROOT / "configs" / "laptop.yaml"


@pytest.fixture(autouse=True)
def _models_in_a_folder_of_their_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for the session: the model is made once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def _changed(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = LAPTOP.read_text().replace("workloads/trace", f"{ROOT}/workloads/trace")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "changed.yaml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The shipped experiment, prepared once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        return prepare(LAPTOP)


def test_the_tiny_model_has_the_kv_bytes_of_its_shape(laptop: Prepared) -> None:
    """8 layers x 2 x 2 heads x 64 x 2 bytes."""
    assert laptop.model.kv_bytes == 4096
    assert (laptop.model.vocab_low, laptop.model.vocab_high) == (4, 32_000)


def test_the_scaled_trace_is_five_chunks_and_a_short_tail(laptop: Prepared) -> None:
    """1/12.8 of 16,384 shared tokens is 1,280: every prewarmed request can hit exactly that."""
    trace = laptop.experiment.workloads[1]
    hits = laptop.workloads.hits_on(trace, laptop.experiment.arms[2])
    assert set(hits.values()) == {1280}
    assert len(hits) == 200


def test_match_rho_gives_the_paper_dimensionless_load(laptop: Prepared) -> None:
    """Whatever R is: rho of one instance is 1.13, of four 1.13 x 0.34 / 4.24, the all-recompute load 0.384."""
    trace = laptop.experiment.workloads[1]
    for rate in (2_000.0, 9_200.0):
        machine = Machine(rate, 4096, 1300)
        arrivals = laptop.workloads.rate_per_s(trace, machine)
        assert arrivals is not None
        one, four = (laptop.workloads.rho(trace, arm, machine, arrivals) for arm in laptop.experiment.arms[2:4])
        assert one == pytest.approx(1.13)
        assert four == pytest.approx(1.13 * 0.34 / 4.24)
        assert arrivals * 1280 / rate == pytest.approx(1.13 * 0.34)
    planned = describe(laptop.workloads.plan(trace, 0, Machine(9_200.0, 4096, 1300))).rate_per_s  # within the window
    assert planned == pytest.approx(9_200 * 1.13 * 0.34 / 1280, rel=1e-4)


def test_the_window_cuts_a_slow_machine_short_and_a_fast_one_not(laptop: Prepared) -> None:
    """Two minutes of arrivals at the matched rate: all 200 at R = 9,200, fewer at 2,000, none of them moved."""
    trace = laptop.experiment.workloads[1]
    fast, slow = (laptop.workloads.plan(trace, 0, Machine(rate, 4096, 1300)).passes[0] for rate in (9_200.0, 2_000.0))
    assert len(fast.requests) == 200
    assert 50 < len(slow.requests) < 90
    assert all((one.due_ns or 0) <= 120e9 for one in slow.requests)
    assert [one.row for one in slow.requests] == [one.row for one in fast.requests][: len(slow.requests)]


def test_repeats_share_lengths_but_no_prompt(laptop: Prepared) -> None:
    """Another repeat asks for other tokens, so that it cannot hit what an earlier one stored."""
    docs = laptop.experiment.workloads[0]
    first, second = (laptop.workloads.plan(docs, repeat, None) for repeat in (0, 1))
    assert first.hash != second.hash
    for one, other in zip(first.passes[0].requests, second.passes[0].requests, strict=True):
        assert len(one.tokens) == len(other.tokens)
        assert one.tokens[0] != other.tokens[0]


def test_selecting_arms_keeps_the_rate_of_the_whole_experiment(tmp_path: Path) -> None:
    """`--arm recompute` alone still knows the arm whose load sets the rate."""
    prepared = prepare(_changed(tmp_path), arms=["recompute"], limit=20)
    trace = prepared.experiment.workloads[1]
    assert [arm.name for arm in prepared.arms] == ["recompute"]
    assert prepared.workloads.rate_per_s(trace, Machine(9_200.0, 4096, 1300)) is not None
    assert len(prepared.workloads.traces["trace-16k"].kept.requests) == 20


@pytest.mark.parametrize("kind", ["arms", "workloads"])
def test_an_unknown_name_is_refused_with_those_known(tmp_path: Path, kind: str) -> None:
    """A typo in --arm or --workload never runs nothing in silence."""
    with pytest.raises(ConfigError, match="'nope'") as caught:
        prepare(_changed(tmp_path), **{kind: ["nope"]})  # type: ignore[arg-type]
    assert ("valkey-4" if kind == "arms" else "ten-docs") in caught.value.remedy


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("max_model_len: 4096", "max_model_len: 1280"), "engine.max_model_len is 1280"),
        (("max_model_len: 4096", "max_model_len: 4000"), "not a multiple of block_size"),
        (("kv_cache_tokens: 5632", "kv_cache_tokens: 1280"), "engine.kv_cache_tokens is 1280"),
        (("model: tiny-8l", "model: tiny-9l"), "no preset and no folder"),
        (("l1: 1GiB}", "l1: 100000GiB}"), "of memory"),
        (("trace-16k-683.jsonl", "trace-17k.jsonl"), "no such trace"),
        (("instances: 1, link", "instances: 1, maxmemory: 1MB, link"), "the instances hold 1.0 MB"),
        (("block_size: 128", "block_size: 128\n  tensor_parallel: 6"), "rank with 6 ranks and 4 instances"),
        (("block_size: 128", "block_size: 128\n  tensor_parallel: 5"), "2 KV heads cannot be split over 5"),
    ],
)
def test_what_cannot_run_is_refused_before_it_starts(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    """Prompts, caches, models and memory that do not fit are errors of the config, or of the trace that it names."""
    path = _changed(tmp_path, change)
    path.write_text(path.read_text().replace("placement: chunk", "placement: rank"))
    with pytest.raises((ConfigError, TraceError), match=words) as caught:
        prepare(path)
    assert caught.value.exit_code == 2
    assert caught.value.remedy


def test_a_bad_trace_row_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """File and line of the row are in the error."""
    trace = tmp_path / "bad.jsonl"
    trace.write_text('{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1,2,3]}\n')
    path = _changed(tmp_path, (f"{ROOT}/workloads/trace-16k-683.jsonl", str(trace)))
    with pytest.raises(TraceError) as caught:
        prepare(path)
    assert f"{trace}:1" in caught.value.where


def test_a_link_as_configured_is_known_without_a_probe(tmp_path: Path) -> None:
    """A rate in bytes a second is known at once, a multiple of B* only with the machine's R; without a link none is."""
    path = _changed(
        tmp_path, ("{bandwidth: 0.34 Bstar}}\n  - name: valkey-4\n", "{bandwidth: 20MB/s}}\n  - name: valkey-4\n")
    )
    recompute, _, one, four = prepare(path).experiment.arms[:4]
    machine = Machine(6_000.0, 4096, 1300)
    assert [link_bytes_per_s(arm, None) for arm in (recompute, one, four)] == [None, 20e6, None]
    assert link_bytes_per_s(one, machine) == 20e6
    assert link_bytes_per_s(four, machine) == pytest.approx(1.06 * machine.bstar_bytes_per_s)


def test_loads_that_kill_the_engine_are_refused(tmp_path: Path) -> None:
    """Asynchronous loads inside the engine, with a host tier: LMCache frees chunks that it still lists."""
    change = ("loads: async, store_policy: skip_l1,", "loads: async,")
    with pytest.raises(ConfigError, match="the engine dies at their next hit") as caught:
        prepare(_changed(tmp_path, change))
    assert caught.value.where.endswith("arm valkey-4-async")
    assert "skip_l1" in caught.value.remedy
    prepare(_changed(tmp_path, change), arms=["valkey-1"])
