"""An experiment made of URLs: servers that already run, to be probed without a config."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config import Experiment, experiment_from
from harness.config.units import parse_bytes
from harness.errors import ConfigError
from harness.experiment.attached import ask_servers, with_said
from harness.experiment.prepare import Prepared, prepare_experiment

_QUESTION_TOKENS = 8
_ANSWER_TOKENS = 4
_WHERE = "--url and what goes with it"


@dataclass(frozen=True, slots=True)
class Servers:
    """Where attached servers answer, and what their addresses do not say of them.

    `by_hash`: chunks lie on the Valkeys by their hash; else each has an equal part of every prompt.
    """

    url: str
    model: str = ""
    metrics_url: str | None = None
    lmcache_url: str | None = None
    valkey_urls: Sequence[str] = ()
    resets: Sequence[str] = ()
    api_key_env: str | None = None
    ca_file: str | None = None
    kv_bytes: str | None = None
    chunk_tokens: int = 256
    longest_tokens: int = 4096
    by_hash: bool = True


def prepare_attached(servers: Servers) -> Prepared:
    """The experiment of one arm at these URLs, with prompts up to `longest_tokens`. Raises ConfigError."""
    attach = {
        "url": servers.url,
        "metrics_url": servers.metrics_url,
        "lmcache_url": servers.lmcache_url,
        "valkey_urls": list(servers.valkey_urls),
        "resets": list(servers.resets),
    }
    arm = {
        "name": "attached",
        "attach": attach,
        "lmcache": {"l1": "1GiB", "chunk_size": servers.chunk_tokens},
        "valkey": _valkey(servers),
    }
    passes = {
        "documents": 1,
        "document_tokens": servers.longest_tokens - _QUESTION_TOKENS,
        "question_tokens": _QUESTION_TOKENS,
        "output_tokens": _ANSWER_TOKENS,
        "order": ["first"],
    }
    document = {
        "experiment": "attached",
        "engine": {"backend": "attach", "model": servers.model, "attach": attach},
        "arms": [arm],
        "workloads": [{"name": "probe", "passes": passes}],
        "client": {"api_key_env": servers.api_key_env, "ca_file": servers.ca_file},
    }
    size = _bytes(servers.kv_bytes)
    experiment = experiment_from(document, _WHERE)
    said = ask_servers(experiment, experiment.arms, Path(_WHERE))
    experiment = _fitting(with_said(experiment, said, Path(_WHERE)))
    prepared = prepare_experiment(experiment, experiment.arms, Path(_WHERE), said)
    return (
        prepared
        if size is None
        else replace(prepared, model=replace(prepared.model, kv_bytes=size, kv_bytes_per_rank=size))
    )


def _fitting(experiment: Experiment) -> Experiment:
    """With a prompt no longer than the server takes."""
    (workload,), longest = experiment.workloads, experiment.engine.max_model_len
    passes = workload.passes
    assert passes is not None  # noqa: S101 - made so
    if longest is None or passes.document_tokens + _QUESTION_TOKENS + _ANSWER_TOKENS <= longest:
        return experiment
    passes = passes.model_copy(update={"document_tokens": longest - _QUESTION_TOKENS - _ANSWER_TOKENS})
    return experiment.model_copy(update={"workloads": (workload.model_copy(update={"passes": passes}),)})


def _valkey(servers: Servers) -> dict[str, object] | None:
    placement = "chunk" if servers.by_hash else "rank"
    return {"instances": len(servers.valkey_urls), "placement": placement} if servers.valkey_urls else None


def _bytes(text: str | None) -> int | None:
    try:
        size = None if text is None else parse_bytes(text)
    except ValueError as error:
        raise ConfigError(str(error), where="--kv-bytes", remedy="write 48.4KB") from error
    if size is not None and size < 1:
        raise ConfigError(f"{text} a token", where="--kv-bytes", remedy="it is above zero")
    return size
