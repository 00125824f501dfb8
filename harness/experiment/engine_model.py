"""The model under test: where it is, how many KV bytes a token has, which token ids a prompt may use."""

import itertools
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config import Engine
from harness.errors import ConfigError
from harness.model import Ranks, kv_bytes
from harness.stack.tiny_model import FIRST_TOKEN, PRESETS, make_tiny_model

_ANY_VOCABULARY = (1_000, 30_000)  # inside every vocabulary in use, outside its special tokens


@dataclass(frozen=True, slots=True)
class EngineModel:
    """`path` is what vLLM is given; `kv_bytes` and `weight_bytes` are None where only a hub or a server knows them.

    `kv_bytes` is one copy of a token's KV, `kv_bytes_per_rank` what one rank holds of it (None: not known).
    """

    path: str
    kv_bytes: int | None
    weight_bytes: int | None
    max_positions: int | None
    vocab_low: int
    vocab_high: int
    kv_bytes_per_rank: int | None = None


def cache_dir() -> Path:
    """Where models made on this machine and the state of `kvreplay up` are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvreplay"


def resolve_model(engine: Engine) -> EngineModel:
    """The model of a config; a preset is made on the spot. Raises ConfigError for a folder that holds none."""
    if engine.model in PRESETS:
        folder = make_tiny_model(engine.model, cache_dir() / "models")
        return _from_folder(folder, FIRST_TOKEN, engine)
    folder = Path(engine.model).expanduser()
    if engine.model and folder.is_dir():
        return _from_folder(folder, None, engine)
    here = engine.model.startswith((".", "/", "~")) and engine.backend != "attach"  # a server's may be elsewhere
    if engine.backend == "vllm-cpu" or here:
        raise ConfigError(
            f"engine.model: no preset and no folder is called {engine.model!r}",
            where="engine.model",
            remedy=f"use one of {', '.join(PRESETS)}, or a folder with config.json and safetensors",
        )
    return EngineModel(engine.model, None, None, None, *_ANY_VOCABULARY)


def _from_folder(folder: Path, low: int | None, engine: Engine) -> EngineModel:
    path = folder / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"engine.model: cannot read the model's config: {error}", where=str(path), remedy="give a model folder"
        ) from error
    text: dict[str, Any] = config.get("text_config") or config
    vocabulary = text.get("vocab_size")
    if not isinstance(vocabulary, int):
        raise ConfigError(
            f"vocab_size is {vocabulary!r}", where=str(path), remedy="the number of the model's token ids"
        )
    first, last = (low, vocabulary) if low is not None else _widest_plain_range(folder, vocabulary)
    try:
        size = kv_bytes(config, cache_dtype=_option(engine, "--kv-cache-dtype") or "auto", ranks=_ranks(engine))
    except ConfigError as error:
        where = str(path) if error.where == "config.json" else error.where
        raise ConfigError(error.what, where=where, remedy=error.remedy) from error
    return EngineModel(
        path=str(folder),
        kv_bytes=size.per_token,
        kv_bytes_per_rank=math.ceil(size.per_rank),
        weight_bytes=sum(file.stat().st_size for file in folder.glob("*.safetensors")),
        max_positions=text.get("max_position_embeddings"),
        vocab_low=first,
        vocab_high=last,
    )


def _ranks(engine: Engine) -> Ranks:
    """How the engine is split. Raises ConfigError for a decode context parallel size that is none."""
    given = _option(engine, "--decode-context-parallel-size") or "1"
    if not given.isdecimal():
        raise ConfigError(
            f"--decode-context-parallel-size is {given!r}", where="engine.extra_args", remedy="a whole number"
        )
    return Ranks(engine.tensor_parallel, int(given), engine.prefill_context_parallel)


def _option(engine: Engine, name: str) -> str | None:
    """The value of a vLLM option in extra_args, written with a space or with =; None without it."""
    value = None
    for position, argument in enumerate(engine.extra_args):
        key, equals, rest = argument.partition("=")
        if key == name:
            value = rest if equals else "".join(engine.extra_args[position + 1 : position + 2])
    return value


def _widest_plain_range(folder: Path, vocabulary: int) -> tuple[int, int]:
    """The longest run of token ids without an added (special) token, from the tokenizer's own file if there is one."""
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.exists():
        return _ANY_VOCABULARY
    added = json.loads(tokenizer.read_text()).get("added_tokens") or []
    marks = sorted({-1, vocabulary, *(int(token["id"]) for token in added if int(token["id"]) < vocabulary)})
    width, low = max((right - left - 1, left + 1) for left, right in itertools.pairwise(marks))
    return low, low + width
