"""Promises of harness.config.load: every error names the line and the path."""

from pathlib import Path

import pytest

from harness.config import load_experiment
from harness.errors import ConfigError

LAPTOP = Path(__file__).parents[3] / "configs" / "laptop.yaml"
MINIMAL = """\
experiment: small
engine: {backend: vllm-cpu, model: tiny-4l, kv_cache_tokens: 1024, block_size: 128}
arms:
  - name: recompute
  - name: remote
    lmcache: {mode: mp, l1: 1GiB}
    valkey: {instances: 2}
workloads:
  - name: docs
    passes: {documents: 2, document_tokens: 256, question_tokens: 4, order: [first]}
"""


def _refused(tmp_path: Path, text: str) -> ConfigError:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_experiment(path)
    return caught.value


def test_the_shipped_config_loads() -> None:
    """configs/laptop.yaml has the four arms and two workloads of the incident, and two arms with LMCache in-process."""
    experiment = load_experiment(LAPTOP)
    assert [arm.name for arm in experiment.arms] == [
        *("recompute", "host", "valkey-1", "valkey-4"),
        *("valkey-1-sync", "valkey-4-async"),
    ]
    assert [workload.name for workload in experiment.workloads] == ["ten-docs", "trace-16k"]


def test_defaults_are_those_of_the_contract(tmp_path: Path) -> None:
    """Placement by chunk, chunks of 256, one repeat, seed 0."""
    path = tmp_path / "x.yaml"
    path.write_text(MINIMAL)
    experiment = load_experiment(path)
    remote = experiment.arms[1]
    assert remote.valkey is not None
    assert remote.lmcache is not None
    assert (remote.valkey.placement, remote.lmcache.chunk_size) == ("chunk", 256)
    assert (experiment.repeats, experiment.seed) == (1, 0)


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("valkey: {instances: 2}", "valkey: {instances: 2, shards: 3}"), 7, "arms[1].valkey.shards: unknown key"),
        (("l1: 1GiB", "l1: 1GIB"), 6, "arms[1].lmcache.l1: '1GIB' is not a size"),
        (("kv_cache_tokens: 1024", "kv_cache_tokens: 1000"), 2, "write 896 or 1024"),
        (("order: [first]", "order: [first, first]"), 10, "order names a pass twice"),
        (("documents: 2", "documents: two"), 10, "workloads[0].passes.documents"),
        (("instances: 2", "instances: 0"), 7, "arms[1].valkey.instances"),
        (("instances: 2", "instances: 2, placement: slot"), 7, "arms[1].valkey.placement"),
        (("instances: 2", "instances: 2, eviction: allkeys-lru"), 7, "never happens without maxmemory"),
        (("instances: 2", "instances: 2, cpus: ['0']"), 7, "cpus names 1 sets of cores for 2 instances"),
        (("instances: 2", "instances: 2, cpus: ['0', '1;2']"), 7, "'1;2' is not a list of cores"),
        (("instances: 2", "urls: 'resp://v-{rank}:6379'"), 7, "has a {rank}: say how many"),
        (("instances: 2", "instances: 2, urls: ['resp://v:6379']"), 7, "urls names 1 and instances says 2"),
        (("instances: 2", "urls: ['resp://v-[0-1]:1', 'resp://v-1:1']"), 7, "urls names resp://v-1:1 twice"),
        (("instances: 2", "urls: 'resp://v-[7-0]:6379'"), 7, "one range from low to high"),
        (("instances: 2", "urls: 'resp://user:secret@v:6379'"), 7, "arms[1].valkey.urls[0]"),
        (("instances: 2", "urls: 'resp://v:6379', io_threads: 4"), 7, "io_threads is for instances started here"),
        (("instances: 2", "instances: 2, flush: true"), 7, "flush is for instances that run already"),
        (("instances: 2", "instances: 2, cluster: true"), 7, "at least 3 nodes"),
        (("instances: 2", "instances: 3, cluster: true, placement: rank"), 7, "placement rank cannot be had"),
        (("instances: 2", "instances: 3, cluster: true, link: {bandwidth: 1MB/s}"), 7, "no link can stand in front"),
        (("mode: mp, l1: 1GiB", "mode: mp, l1: 1GiB, loads: sync"), 6, "loads: sync needs mode: inprocess"),
        (("name: remote", "name: recompute"), 1, "two arms are named 'recompute'"),
        (("backend: vllm-cpu", "backend: vllm_cpu"), 2, "engine.backend"),
        (("    lmcache: {mode: mp, l1: 1GiB}\n", ""), 5, "valkey needs lmcache"),
    ],
)
def test_an_error_names_line_and_path(tmp_path: Path, change: tuple[str, str], line: int, words: str) -> None:
    """What is wrong, and where to look, for every kind of mistake."""
    error = _refused(tmp_path, MINIMAL.replace(*change))
    assert error.where == f"{tmp_path / 'x.yaml'}:{line}"
    assert words in error.what
    assert error.exit_code == 2


@pytest.mark.parametrize(
    ("change", "what", "remedy"),
    [
        (("instances: 2", "instance: 2"), "arms[1].valkey.instance: unknown key", "write 'instances'"),
        (("workloads:", "workload:"), "workload: unknown key", "write 'workloads'"),
        (("instances: 2", "instances: 2, shards: 3"), "arms[1].valkey.shards: unknown key", "remove 'shards'"),
        (("instances: 2", ""), "arms[1].valkey.instances: missing", "add 'instances'"),
        (
            ("mode: mp", "mode: multi"),
            "arms[1].lmcache.mode: Input should be 'mp' or 'inprocess', and it is 'multi'",
            "",
        ),
    ],
)
def test_a_misspelt_key_is_named_with_what_was_meant(
    tmp_path: Path, change: tuple[str, str], what: str, remedy: str
) -> None:
    """It comes before what is missing for it, and a wrong value is shown."""
    error = _refused(tmp_path, MINIMAL.replace(*change))
    assert error.what == what
    assert error.remedy.startswith(remedy)


def test_a_key_written_twice_is_refused(tmp_path: Path) -> None:
    """YAML would let the second one win in silence."""
    error = _refused(tmp_path, MINIMAL + "experiment: other\n")
    assert "appears twice" in error.what
    assert error.where.endswith("x.yaml:11")


@pytest.mark.parametrize("text", ["", "- 1\n", "a: [1\n", "a: b: c\n"])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    """Empty files, lists and broken YAML are configuration errors, not tracebacks."""
    assert _refused(tmp_path, text).where


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The path is in the error."""
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load_experiment(tmp_path / "nowhere.yaml")


def test_match_rho_needs_one_arm_to_match(tmp_path: Path) -> None:
    """Without a linked single instance the rate is not defined."""
    trace = "  - name: t\n    trace: {file: t.jsonl, rate: match-rho}\n"
    assert "match-rho needs exactly one arm" in _refused(tmp_path, MINIMAL + trace).what


def test_running_valkeys_are_written_out(tmp_path: Path) -> None:
    """A template, a range and a list of both name one URL an instance, and nothing is started."""
    path = tmp_path / "x.yaml"
    for urls, count, expected in (
        ("'resp://valkey-{rank}:6379', instances: 2", 2, ["resp://valkey-0:6379", "resp://valkey-1:6379"]),
        ("'valkeys://v[08-10]:6379'", 3, ["valkeys://v8:6379", "valkeys://v9:6379", "valkeys://v10:6379"]),
        ("['unix:///run/v', 'redis://v-[0-1]:1']", 3, ["unix:///run/v", "redis://v-0:1", "redis://v-1:1"]),
    ):
        path.write_text(MINIMAL.replace("instances: 2", f"urls: {urls}"))
        remote = load_experiment(path).arms[1].valkey
        assert remote is not None
        assert (list(remote.urls), remote.instances, remote.started) == (expected, count, 0)


def test_arms_do_not_share_keys_of_running_valkeys(tmp_path: Path) -> None:
    """The second arm would find what the first stored; with a prefix, or where it may be emptied, it does not."""
    arm = "  - name: other\n    lmcache: {mode: mp, l1: 1GiB}\n    valkey: {urls: 'resp://v:1'}\n"
    both = MINIMAL.replace("instances: 2", "urls: 'resp://v:1'").replace("workloads:", f"{arm}workloads:")
    assert "'remote' and 'other' both write to resp://v:1" in _refused(tmp_path, both).what
    path = tmp_path / "x.yaml"
    for mend in ("key_prefix: a", "flush: true"):
        path.write_text(both.replace("{urls: 'resp://v:1'}", f"{{urls: 'resp://v:1', {mend}}}", 1))
        assert len(load_experiment(path).arms) == 3
