"""`kvreplay probe --url` against an engine whose R, T0 and B are known, in a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.store import open_run
from tests.fakes.served import cached_engine
from tests.fakes.valkey_servers import running

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
CONFIG = """\
experiment: theirs
engine: {{backend: attach, model: m}}
arms:
  - name: host
    attach: {{url: "{url}", resets: [engine]}}
    lmcache: {{l1: 1GiB}}
workloads:
  - name: docs
    passes: {{documents: 1, document_tokens: 1092, question_tokens: 8, order: [first]}}
simulation: {{kv_bytes_per_token: 4096B}}
"""
COLD = 10_000.0  # tokens a second
BYTES_PER_S = 20e6
SIZE = 4096


def probe(tmp_path: Path, url: str, *more: str) -> "subprocess.CompletedProcess[str]":
    """The command, with prompts of up to 1,100 tokens."""
    given = ("--url", url, "--model", "m", "--lmcache-url", url, "--kv-bytes", f"{SIZE}B", "--longest", "1100")
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", "probe", *given, "--out", str(tmp_path), *more],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


def answer(tmp_path: Path, url: str, *more: str) -> dict[str, Any]:
    """The document of a probe that ended well."""
    end = probe(tmp_path, url, "--reset-engine", "--json", *more)
    assert end.returncode == 0, end.stderr
    document: dict[str, Any] = json.loads(end.stdout)
    return document


def test_r_t0_and_b_are_found_again(tmp_path: Path) -> None:
    """R and B within 10 %, T0 within 15 ms of their intervals; every row is kept, in no measured pass."""
    with cached_engine(prefill_tokens_per_s=COLD, bandwidth_bytes_per_s=BYTES_PER_S, hit_fixed_s=0.03) as url:
        document = answer(tmp_path, url, "--prompt", "1024", "--rate", "2")
    arm = document["arms"]["attached"]
    figures = arm["figures"]
    load_s = 1024 * SIZE / BYTES_PER_S
    for name, true, off in (
        ("bandwidth_bytes_per_s", BYTES_PER_S, 0.1 * BYTES_PER_S),
        ("hit_fixed_s", 0.03, 0.015),
        ("recompute_s", 0.01 + 1024 / COLD, 0.1 * 1024 / COLD),
        ("rho", 2 * load_s, 0.2 * load_s),
    ):
        assert figures[name]["low"] - off <= true <= figures[name]["high"] + off, (name, figures[name])
    for name in ("bandwidth_bytes_per_s", "hit_fixed_s", "prefill_tokens_per_s"):
        assert figures[name]["low"] <= figures[name]["value"] <= figures[name]["high"]
    assert arm["verdict"]["word"] == "off"  # B is half of B*
    assert "--copies 16" in document["tighter"]
    assert document["cold"]["stored"] is True  # R was measured on the only server there is
    run = open_run(Path(document["folder"]))
    assert {row["pass"] for row in run.requests.to_pylist()} == {"warmup", "probe"}
    assert json.loads((Path(document["folder"]) / "probe.json").read_text()) == document


def test_counters_tell_of_hits_where_answers_do_not(tmp_path: Path) -> None:
    """vLLM without --enable-prompt-tokens-details: B all the same."""
    with cached_engine(prefill_tokens_per_s=COLD, bandwidth_bytes_per_s=BYTES_PER_S, counts=0) as url:
        document = answer(tmp_path, url)
    found = document["arms"]["attached"]["figures"]["bandwidth_bytes_per_s"]["value"]
    assert found == pytest.approx(BYTES_PER_S, rel=0.1)


def test_leave_to_empty_the_engine_is_none_to_empty_l1(tmp_path: Path) -> None:
    """LMCache's host memory, in front of a Valkey, is emptied by --reset-l1 alone; the error names it."""
    with cached_engine() as url, running(1, tmp_path) as (valkey,):
        behind = ("--valkey-url", f"valkey://{valkey.endpoint}", "--reset-engine")
        _refused(probe(tmp_path, url, *behind), "the hits came from host memory", "--reset-l1")
        assert httpx.get(f"{url}/cleared").text == "0"
        probe(tmp_path, url, *behind, "--reset-l1")
        assert int(httpx.get(f"{url}/cleared").text) > 0


def test_a_config_gives_leave_itself(tmp_path: Path) -> None:
    """`resets: [engine]` is as good as --reset-engine."""
    config = tmp_path / "theirs.yaml"
    with cached_engine() as url:
        config.write_text(CONFIG.format(url=url))
        end = subprocess.run(
            [sys.executable, "-m", "harness.cli", "probe", str(config), "--out", str(tmp_path), "--json"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert end.returncode == 0, end.stderr
    assert json.loads(end.stdout)["arms"]["host"]["hits"]["points"]


def test_a_fast_tier_is_on(tmp_path: Path) -> None:
    """Ten times the bandwidth: the same probe says on."""
    with cached_engine(prefill_tokens_per_s=COLD, bandwidth_bytes_per_s=10 * BYTES_PER_S, hit_fixed_s=0.02) as url:
        document = answer(tmp_path, url, "--prompt", "1024", "--rate", "2")
    assert document["arms"]["attached"]["verdict"]["word"] == "on"


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    """Exit 130; the rows that were sent are in a run folder that can be opened."""
    with cached_engine(prefill_fixed_s=1) as url:
        command = [sys.executable, "-m", "harness.cli", "probe", "--url", url, "--model", "m", "--kv-bytes", "4096B"]
        process = subprocess.Popen(
            [*command, "--longest", "1100", "--out", str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        next(line for line in process.stderr if "warmup: " in line)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    (folder,) = (tmp_path / "attached-probe").iterdir()
    run = open_run(folder, allow_incomplete=True)
    assert run.requests.num_rows == run.meta["planned"]["attached/warmup/warmup/0"]


def _refused(end: "subprocess.CompletedProcess[str]", *named: str, code: int = 1) -> None:
    assert (end.returncode, end.stdout) == (code, ""), end.stderr
    assert "Traceback" not in end.stderr
    assert "to do:" in end.stderr
    for words in named:
        assert words in end.stderr


def test_a_busy_server_is_refused(tmp_path: Path) -> None:
    """A request of somebody else is on it: refused before anything is measured."""
    with cached_engine(prefill_tokens_per_s=100) as url:
        body = {"prompt": [1] * 6000, "max_tokens": 1}

        def ask() -> None:
            with contextlib.suppress(httpx.HTTPError):
                httpx.post(f"{url}/v1/completions", json=body, timeout=30)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        _refused(probe(tmp_path, url, "--reset-engine"), "the server is busy", "1.0 running")


def test_tokens_of_others_are_noticed(tmp_path: Path) -> None:
    """Requests of others that come and go while the probe measures: their tokens are counted, and it is refused."""
    with cached_engine(foreign_tokens=100) as url:
        _refused(probe(tmp_path, url, "--reset-engine"), "the server is busy", "prompt tokens of others")


def test_a_cache_that_never_hits_says_why(tmp_path: Path) -> None:
    """Nothing is found remotely; the engine's own cache, not to be emptied, is in the way; another chunk than told."""
    with cached_engine(forgets=1) as url:
        _refused(probe(tmp_path, url, "--reset-engine"), "the remote cache never hits", "PYTHONHASHSEED")
    with cached_engine() as url:
        _refused(probe(tmp_path, url), "vLLM's own cache answered", "--reset-engine")
        _refused(probe(tmp_path, url, "--reset-engine", "--chunk", "300"), "no prompt hit whole", "chunk_size 300")
        _refused(probe(tmp_path, url, "--chunk", "2048"), "no whole chunk is ever stored", code=2)
        _refused(probe(tmp_path, url, "--chunk", "500"), "2 lengths of whole chunks are too few points", code=2)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--kv-bytes", "48.4"), "a number and its unit"),
        (("--kv-bytes", "0KB"), "above zero"),
        (("--copies", "1"), "too few"),
        (("--longest", "-5"), "document_tokens"),
        (("--assume", "R=1"), "at once"),
        (("--prompt", "-5"), "prompt_tokens is -5"),
    ],
)
def test_bad_options_are_refused_before_anything_is_sent(tmp_path: Path, more: tuple[str, ...], named: str) -> None:
    """Exit 2; nobody needs to listen."""
    _refused(probe(tmp_path, "http://127.0.0.1:9", *more), named, code=2)
